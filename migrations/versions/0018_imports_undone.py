"""Imports that can be retracted as a whole."""

from alembic import op

revision: str = "0018"
down_revision: str | None = "0017"
branch_labels: str | None = None
depends_on: str | None = None

_NAME = "ck_retractions_target_known"


def upgrade() -> None:
    op.drop_constraint(op.f(_NAME), "retractions")
    op.create_check_constraint(
        op.f(_NAME), "retractions", "target IN ('vote', 'battle', 'model', 'annotator', 'import')"
    )


def downgrade() -> None:
    # Not validated: what was undone stays undone, although the earlier version cannot name it.
    op.drop_constraint(op.f(_NAME), "retractions")
    op.execute(
        f"ALTER TABLE retractions ADD CONSTRAINT {_NAME} "
        "CHECK (target IN ('vote', 'battle', 'model', 'annotator')) NOT VALID"
    )
