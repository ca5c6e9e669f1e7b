"""Annotators are people or judges, as far as it was said; a snapshot names those that were judges then."""

import sqlalchemy as sa
from alembic import op

revision: str = "0031"
down_revision: str | None = "0030"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.add_column("annotators", sa.Column("kind", sa.Text()))
    op.add_column("snapshots", sa.Column("judges", sa.ARRAY(sa.Integer()), nullable=False, server_default="{}"))


def downgrade() -> None:
    op.drop_column("snapshots", "judges")
    op.drop_column("annotators", "kind")
