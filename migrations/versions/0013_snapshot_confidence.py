"""How sure the order of a snapshot's leaderboards is; snapshots from before have none."""

import sqlalchemy as sa
from alembic import op

revision: str = "0013"
down_revision: str | None = "0012"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.create_table(
        "snapshot_confidence",
        sa.Column("snapshot_id", sa.Uuid(), nullable=False),
        sa.Column("tag", sa.Text(), nullable=False),
        sa.Column("model_ids", sa.ARRAY(sa.Integer()), nullable=False),
        sa.Column("scores", sa.ARRAY(sa.Double()), nullable=False),
        sa.Column("freedom", sa.ARRAY(sa.Double()), nullable=False),
        sa.Column("errors", sa.LargeBinary(), nullable=False),
        sa.Column("doubled", sa.LargeBinary(), nullable=False),
        sa.Column("within", sa.LargeBinary(), nullable=False),
        sa.Column("forecasts", sa.ARRAY(sa.Double(), dimensions=2), nullable=False),
        sa.Column("votes", sa.BigInteger(), nullable=False),
        sa.Column("unscored", sa.Integer(), nullable=False),
        sa.Column("confidence", sa.Double(), nullable=False),
        sa.Column("margin", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["snapshot_id"], ["snapshots.id"], name="fk_snapshot_confidence_snapshot_id"),
        sa.PrimaryKeyConstraint("snapshot_id", "tag", name="pk_snapshot_confidence"),
    )


def downgrade() -> None:
    op.drop_table("snapshot_confidence")
