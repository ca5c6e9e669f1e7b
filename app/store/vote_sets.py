"""Sets of votes, named exactly: which transactions' rows a refit saw, and what has been recorded since."""

from sqlalchemy import ColumnElement, Connection, and_, cast, func, literal_column, not_, or_, select
from sqlalchemy.types import UserDefinedType

from app.store.tables import decisions, policies, votes

_WATCHED = (votes, decisions, policies)


class _PgSnapshot(UserDefinedType[str]):
    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "pg_snapshot"


def read_vote_set(conn: Connection) -> str:
    """Name exactly the transactions whose rows this REPEATABLE READ transaction sees, as `pg_snapshot` text."""
    return str(conn.execute(select(literal_column("pg_current_snapshot()::text"))).scalar_one())


def unseen_by(recorded_in: ColumnElement[str], vote_set: str) -> ColumnElement[bool]:
    """Whether a row was recorded by a transaction that `vote_set` did not see.

    A transaction that began before the snapshot and committed after it is unseen, whatever its id: comparing ids
    alone would lose its rows for ever. The first condition says nothing new; it lets an index do the work.
    """
    seen = cast(vote_set, _PgSnapshot())
    return and_(
        recorded_in >= func.pg_snapshot_xmin(seen),
        not_(func.pg_visible_in_snapshot(recorded_in, seen)),
    )


def new_votes_since(conn: Connection, vote_set: str) -> int:
    """Count the votes on record that `vote_set` did not see."""
    statement = select(func.count()).select_from(votes).where(unseen_by(votes.c.recorded_in, vote_set))
    return conn.execute(statement).scalar_one()


def anything_new_since(conn: Connection, vote_set: str) -> bool:
    """Whether a vote, a decision or a policy is on record that `vote_set` did not see."""
    news = [select(t.c.recorded_in).where(unseen_by(t.c.recorded_in, vote_set)).exists() for t in _WATCHED]
    return bool(conn.execute(select(or_(*news))).scalar_one())


def anyone_has_more_votes_than(conn: Connection, votes_wanted: int) -> bool:
    """Whether any annotator has more than so many votes. Reads every vote: for a service's first minutes only."""
    rich = select(votes.c.annotator_id).group_by(votes.c.annotator_id).having(func.count() > votes_wanted)
    return bool(conn.execute(select(rich.exists())).scalar_one())
