"""Models with too few votes or annotators to be ranked."""

import sqlalchemy as sa
from alembic import op

revision: str = "0021"
down_revision: str | None = "0020"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.add_column("snapshot_models", sa.Column("provisional", sa.Boolean(), nullable=False, server_default="false"))


def downgrade() -> None:
    op.drop_column("snapshot_models", "provisional")
