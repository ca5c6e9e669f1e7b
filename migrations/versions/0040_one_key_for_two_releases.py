"""The battle of a vote by a criterion has a column of its own: one key of battles works for two releases.

The release before names the key of (battle, annotator, version) in each statement that adds votes, so it has to stay;
and it must not find a vote by a criterion where it looks for the vote on which answer is better.

On a database of a release this builds an index, which is empty, by reading all votes once. Databases of the commits in
between lost the key: it is built anew, and their votes by criteria move.
"""

import sqlalchemy as sa
from alembic import op

revision: str = "0040"
down_revision: str | None = "0039"
branch_labels: str | None = None
depends_on: str | None = None

_OVERALL = ["battle_id", "annotator_id", "version"]
_BY_CRITERION = ["criterion_battle_id", "annotator_id", "criterion", "version"]
_FORMER = ["battle_id", "annotator_id", "criterion", "version"]


def upgrade() -> None:
    op.add_column("votes", sa.Column("criterion_battle_id", sa.Text()))
    op.execute("UPDATE votes SET criterion_battle_id = battle_id, battle_id = NULL WHERE criterion IS NOT NULL")
    _add_key(_OVERALL, if_not_exists=True)
    _add_key(_BY_CRITERION)
    op.drop_index(f"uq_votes_{'_'.join(_FORMER)}", "votes", if_exists=True)


def downgrade() -> None:
    """Bring the key that the commits before this one name."""
    op.drop_index(f"uq_votes_{'_'.join(_OVERALL)}", "votes")
    op.execute("UPDATE votes SET battle_id = criterion_battle_id WHERE criterion_battle_id IS NOT NULL")
    op.drop_column("votes", "criterion_battle_id")  # and its key
    _add_key(_FORMER, one_null=True)


def _add_key(columns: list[str], *, if_not_exists: bool = False, one_null: bool = False) -> None:
    op.create_index(
        f"uq_votes_{'_'.join(columns)}",
        "votes",
        columns,
        unique=True,
        if_not_exists=if_not_exists,
        postgresql_where=sa.text(f"{columns[0]} IS NOT NULL"),
        postgresql_nulls_not_distinct=one_null,
    )
