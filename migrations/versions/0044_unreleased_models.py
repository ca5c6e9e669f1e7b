"""Models under a codename that nothing public names, and why a model was archived; which reasons may be read by all."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0044"
down_revision: str | None = "0043"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.add_column("models", sa.Column("unreleased", sa.Boolean(), nullable=False, server_default="false"))
    op.add_column("models", sa.Column("archive_reason", sa.Text()))
    op.add_column("retractions", sa.Column("reason_public", sa.Boolean(), nullable=False, server_default="false"))
    numbers = postgresql.ARRAY(sa.Integer())
    op.add_column("snapshots", sa.Column("unreleased", numbers, nullable=False, server_default="{}"))


def downgrade() -> None:
    op.drop_column("snapshots", "unreleased")
    op.drop_column("retractions", "reason_public")
    op.drop_column("models", "archive_reason")
    op.drop_column("models", "unreleased")
