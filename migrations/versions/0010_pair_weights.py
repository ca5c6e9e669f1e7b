"""How likely each pair of models is to be a battle, by snapshot and tag."""

import sqlalchemy as sa
from alembic import op

revision: str = "0010"
down_revision: str | None = "0009"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.create_table(
        "snapshot_pair_weights",
        sa.Column("snapshot_id", sa.Uuid(), nullable=False),
        sa.Column("tag", sa.Text(), nullable=False),
        sa.Column("model_ids", sa.ARRAY(sa.Integer()), nullable=False),
        sa.Column("scores", sa.ARRAY(sa.Double()), nullable=False),
        sa.Column("weights", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("snapshot_id", "tag", name=op.f("pk_snapshot_pair_weights")),
    )


def downgrade() -> None:
    op.drop_table("snapshot_pair_weights")
