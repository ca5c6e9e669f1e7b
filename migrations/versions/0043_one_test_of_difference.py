"""Which models each one is better than, and how sure that is; null for snapshots from before."""

import sqlalchemy as sa
from alembic import op

revision: str = "0043"
down_revision: str | None = "0042"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.add_column("snapshot_models", sa.Column("above", sa.LargeBinary(), nullable=True))


def downgrade() -> None:
    op.drop_column("snapshot_models", "above")
