"""How sure the order is, for every group of a leaderboard. The table is small: its lock is short."""

import sqlalchemy as sa
from alembic import op

revision: str = "0038"
down_revision: str | None = "0037"
branch_labels: str | None = None
depends_on: str | None = None

_TABLE, _KEY = "snapshot_confidence", "pk_snapshot_confidence"


def upgrade() -> None:
    op.add_column(_TABLE, sa.Column("component", sa.Integer(), nullable=False, server_default="0"))
    op.drop_constraint(_KEY, _TABLE)
    op.create_primary_key(_KEY, _TABLE, ["snapshot_id", "tag", "component"])


def downgrade() -> None:
    op.execute("DELETE FROM snapshot_confidence WHERE component > 0")
    op.drop_constraint(_KEY, _TABLE)
    op.drop_column(_TABLE, "component")
    op.create_primary_key(_KEY, _TABLE, ["snapshot_id", "tag"])
