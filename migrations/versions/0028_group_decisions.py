"""Decisions that are taken on a group of annotators at once share an id."""

import sqlalchemy as sa
from alembic import op

revision: str = "0028"
down_revision: str | None = "0027"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.add_column("decisions", sa.Column("group_id", sa.Uuid()))
    op.create_index("ix_decisions_group_id", "decisions", ["group_id"])


def downgrade() -> None:
    op.drop_index("ix_decisions_group_id", "decisions")
    op.drop_column("decisions", "group_id")
