"""Votes may answer other questions than which answer is better overall; each is asked once.

Builds the index of battles anew, about a second for a million votes: votes wait meanwhile.
"""

import sqlalchemy as sa
from alembic import op

revision: str = "0035"
down_revision: str | None = "0034"
branch_labels: str | None = None
depends_on: str | None = None

_KEY, _FORMER_KEY = ["battle_id", "annotator_id", "criterion", "version"], ["battle_id", "annotator_id", "version"]


def upgrade() -> None:
    op.add_column("votes", sa.Column("criterion", sa.Text()))
    _replace_key(_FORMER_KEY, _KEY, nulls_distinct=False)
    op.create_index("ix_votes_criterion", "votes", ["criterion"], postgresql_where=sa.text("criterion IS NOT NULL"))


def downgrade() -> None:
    op.drop_index("ix_votes_criterion", "votes")
    # The earlier version would count them as votes on which answer is better.
    op.execute("DELETE FROM votes WHERE criterion IS NOT NULL")
    _replace_key(_KEY, _FORMER_KEY, nulls_distinct=True)
    op.drop_column("votes", "criterion")


def _replace_key(former: list[str], key: list[str], *, nulls_distinct: bool) -> None:
    op.create_index(
        f"uq_votes_{'_'.join(key)}",
        "votes",
        key,
        unique=True,
        postgresql_where=sa.text("battle_id IS NOT NULL"),
        postgresql_nulls_not_distinct=not nulls_distinct,
    )
    op.drop_index(f"uq_votes_{'_'.join(former)}", "votes")
