"""Each annotator's adjusted ability, readiness to tie and lean to a side; null in snapshots from before."""

import sqlalchemy as sa
from alembic import op

revision: str = "0020"
down_revision: str | None = "0019"
branch_labels: str | None = None
depends_on: str | None = None

_COLUMNS = ("adjusted_ability", "adjusted_se", "tie_log", "tie_se", "side_lean", "side_lean_se")


def upgrade() -> None:
    for name in _COLUMNS:
        op.add_column("snapshot_annotators", sa.Column(name, sa.Double()))


def downgrade() -> None:
    for name in _COLUMNS:
        op.drop_column("snapshot_annotators", name)
