"""Classes of the models on a leaderboard; null for snapshots from before."""

import sqlalchemy as sa
from alembic import op

revision: str = "0009"
down_revision: str | None = "0008"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.add_column("snapshot_models", sa.Column("class_rank", sa.Integer(), nullable=True))


def downgrade() -> None:
    op.drop_column("snapshot_models", "class_rank")
