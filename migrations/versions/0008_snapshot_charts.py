"""Charts of a snapshot, drawn by the worker; snapshots from before have none."""

import sqlalchemy as sa
from alembic import op

revision: str = "0008"
down_revision: str | None = "0007"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.create_table(
        "snapshot_charts",
        sa.Column("snapshot_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("svg", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["snapshot_id"], ["snapshots.id"], name="fk_snapshot_charts_snapshot_id"),
        sa.PrimaryKeyConstraint("snapshot_id", "name", name="pk_snapshot_charts"),
    )


def downgrade() -> None:
    op.drop_table("snapshot_charts")
