"""Snapshots' annotators and matchups without foreign keys: checking them took half of a publication's time."""

from alembic import op

revision: str = "0005"
down_revision: str | None = "0004"
branch_labels: str | None = None
depends_on: str | None = None

KEYS = (
    ("snapshot_annotators", "snapshot_id", "snapshots"),
    ("snapshot_annotators", "annotator_id", "annotators"),
    ("snapshot_matchups", "snapshot_id", "snapshots"),
)


def upgrade() -> None:
    for table, column, _ in KEYS:
        op.drop_constraint(op.f(f"fk_{table}_{column}"), table)


def downgrade() -> None:
    for table, column, named in KEYS:
        op.create_foreign_key(op.f(f"fk_{table}_{column}"), table, named, [column], ["id"])
