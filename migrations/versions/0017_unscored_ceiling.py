"""Above which score no model without one is; snapshots from before do not know, so it may be any."""

import sqlalchemy as sa
from alembic import op

revision: str = "0017"
down_revision: str | None = "0016"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.add_column(
        "snapshot_confidence",
        sa.Column("unscored_ceiling", sa.Double(), nullable=False, server_default="Infinity"),
    )


def downgrade() -> None:
    op.drop_column("snapshot_confidence", "unscored_ceiling")
