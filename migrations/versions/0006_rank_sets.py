"""Rank sets of the models on a leaderboard; null for snapshots from before."""

import sqlalchemy as sa
from alembic import op

revision: str = "0006"
down_revision: str | None = "0005"
branch_labels: str | None = None
depends_on: str | None = None

COLUMNS = ("rank_set_best", "rank_set_worst")


def upgrade() -> None:
    for name in COLUMNS:
        op.add_column("snapshot_models", sa.Column(name, sa.Integer(), nullable=True))


def downgrade() -> None:
    for name in COLUMNS:
        op.drop_column("snapshot_models", name)
