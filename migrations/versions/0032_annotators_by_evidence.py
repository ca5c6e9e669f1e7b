"""Annotators of a snapshot in the order in which pages list them."""

import sqlalchemy as sa
from alembic import op

revision: str = "0032"
down_revision: str | None = "0031"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    evidence = sa.text("coalesce(ability, shadow_ability, 'Infinity'::double precision)")
    op.create_index("ix_snapshot_annotators_evidence", "snapshot_annotators", ["snapshot_id", evidence, "annotator_id"])


def downgrade() -> None:
    op.drop_index("ix_snapshot_annotators_evidence", "snapshot_annotators")
