"""How few changes of the votes change a snapshot's order; earlier snapshots have it in their diagnostics."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "0022"
down_revision: str | None = "0021"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.create_table(
        "snapshot_fragility",
        sa.Column("snapshot_id", sa.Uuid(), nullable=False),
        sa.Column("pairs", JSONB(), nullable=False),
        sa.Column("best", JSONB(), nullable=False),
        sa.ForeignKeyConstraint(["snapshot_id"], ["snapshots.id"], name="fk_snapshot_fragility_snapshot_id"),
        sa.PrimaryKeyConstraint("snapshot_id", name="pk_snapshot_fragility"),
    )


def downgrade() -> None:
    op.drop_table("snapshot_fragility")
