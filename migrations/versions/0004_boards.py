"""Leaderboards by tag, annotators who stay flagged by hysteresis, and flags dismissed against evidence."""

import sqlalchemy as sa
from alembic import op

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: str | None = None
depends_on: str | None = None

KEY = "pk_snapshot_models"
SIDES = ("model_a", "model_b")
WHOLE = ["snapshot_id", "method", "model_id"]


def upgrade() -> None:
    for side in SIDES:
        op.drop_constraint(op.f(f"fk_snapshot_matchups_{side}_id"), "snapshot_matchups")
    op.add_column("annotators", sa.Column("dismissed_above", sa.Double()))
    op.add_column("snapshots", sa.Column("held", sa.ARRAY(sa.Integer()), server_default="{}", nullable=False))
    op.add_column("snapshot_models", sa.Column("tag", sa.Text(), server_default="", nullable=False))
    op.drop_constraint(op.f(KEY), "snapshot_models")
    op.create_primary_key(op.f(KEY), "snapshot_models", [*WHOLE[:2], "tag", WHOLE[2]])


def downgrade() -> None:
    op.execute("DELETE FROM snapshot_models WHERE tag <> ''")
    op.drop_constraint(op.f(KEY), "snapshot_models")
    op.drop_column("snapshot_models", "tag")
    op.create_primary_key(op.f(KEY), "snapshot_models", WHOLE)
    op.drop_column("snapshots", "held")
    op.drop_column("annotators", "dismissed_above")
    for side in SIDES:
        op.create_foreign_key(
            op.f(f"fk_snapshot_matchups_{side}_id"), "snapshot_matchups", "models", [f"{side}_id"], ["id"]
        )
