"""Vote sets: the transactions whose rows a refit saw, and what has been recorded since."""

from collections.abc import Callable
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    cast,
    func,
    literal_column,
    not_,
    or_,
    select,
    text,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import UserDefinedType

from app.database.tables import decisions, model_merges, policies, retracted_votes, votes, withdrawn_retractions
from app.models.contestants import Contestants, read_contestants

MOST_COUNTED = 1_000_000
"""Before the first snapshot votes are counted no further: the count is read often and has to be cheap."""

_WATCHED = (votes, retracted_votes, withdrawn_retractions, model_merges, decisions, policies)

_VOTE_SETS = 100

_COUNT = text(
    """
    SELECT count(*) AS votes,
        count(*) FILTER (WHERE pg_visible_in_snapshot(recorded_in, pg_current_snapshot())) AS seen,
        pg_current_snapshot()::text AS vote_set
    FROM votes
    WHERE recorded_in >= pg_snapshot_xmin(CAST(:vote_set AS pg_snapshot))
        AND NOT pg_visible_in_snapshot(recorded_in, CAST(:vote_set AS pg_snapshot))
    """
)


class _PgSnapshot(UserDefinedType[str]):
    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "pg_snapshot"

    def literal_processor(self, dialect: object) -> Callable[[str], str]:  # noqa: ARG002  SQLAlchemy's signature
        return lambda value: "'" + value.replace("'", "''") + "'"  # for COPY, which takes no parameters


def read_vote_set(conn: Connection) -> str:
    """Return the transactions whose rows this REPEATABLE READ transaction sees, as `pg_snapshot` text."""
    return str(conn.execute(select(literal_column("pg_current_snapshot()::text"))).scalar_one())


def seen_by(recorded_in: ColumnElement[str], vote_set: str | BindParameter[str]) -> ColumnElement[bool]:
    """Whether a row was recorded by a transaction that `vote_set` saw."""
    return func.pg_visible_in_snapshot(recorded_in, cast(vote_set, _PgSnapshot()))


def unseen_by(recorded_in: ColumnElement[str], vote_set: str | BindParameter[str]) -> ColumnElement[bool]:
    """Whether a row was recorded by a transaction that `vote_set` did not see.

    A transaction that began before the snapshot and committed after it is unseen, whatever its id. Comparing ids alone
    would lose its rows for ever. The first condition follows from the second; it is there for the index.
    """
    first_unsure = func.pg_snapshot_xmin(cast(vote_set, _PgSnapshot()))
    return and_(recorded_in >= first_unsure, not_(seen_by(recorded_in, vote_set)))


def is_retracted(vote_id: ColumnElement[Any], vote_set: str | None = None) -> ColumnElement[bool]:
    """Whether a vote does not count: it is replaced, or a retraction covers it that was not withdrawn.

    With a `vote_set`, whether that was so when the set was read.
    """
    causes = _causes_in_force(vote_set)
    return causes.where(causes.selected_columns.vote_id == vote_id).exists()


def is_retracted_sql(vote_id: str, vote_set: str | None = None) -> str:
    """Return the same as SQL without parameters, for statements in text. `vote_id` is the column's name there."""
    dialect = postgresql.dialect(paramstyle="named")  # type: ignore[no-untyped-call]  # not typed
    condition = is_retracted(literal_column(vote_id), vote_set)
    return str(condition.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))


def _causes_in_force(vote_set: str | None) -> Select[Any]:
    """Select `vote_id` once for each retraction or replacement of it that is in force."""
    cause, withdrawn = retracted_votes.alias("cause"), withdrawn_retractions.alias("withdrawn")
    same = withdrawn.c.retraction_id == cause.c.retraction_id
    if vote_set is not None:
        same = and_(same, seen_by(withdrawn.c.recorded_in, vote_set))
    statement = select(cause.c.vote_id).outerjoin_from(cause, withdrawn, same)
    statement = statement.where(withdrawn.c.retraction_id.is_(None))
    return statement if vote_set is None else statement.where(seen_by(cause.c.recorded_in, vote_set))


def read_retracted_ids(conn: Connection) -> NDArray[np.uint64]:
    """Return the ids of the votes that do not count, as halves of 64 bits, shape (n, 2); no vote twice."""
    causes = _causes_in_force(None).distinct().subquery()
    joined = select(func.string_agg(func.uuid_send(causes.c.vote_id), literal_column("''::bytea")))
    ids = conn.execute(joined).scalar_one() or b""
    return np.frombuffer(ids, ">u8").astype(np.uint64).reshape(-1, 2)


def new_votes_since(conn: Connection, vote_set: str) -> int:
    """Count the votes on record that `vote_set` did not see."""
    return NewVotes().since(conn, vote_set)


class _Counted(NamedTuple):
    """How many votes this set has more than the one asked about."""

    votes: int
    vote_set: str


class NewVotes:
    """Counts the votes that a vote set did not see, and reads each vote once: votes are never deleted.

    A full count takes a tenth of a second for 600,000 new votes, which is too long for every request. May be used by
    several threads.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._counted: LRUCache[str, _Counted] = LRUCache(_VOTE_SETS)

    def since(self, conn: Connection, vote_set: str) -> int:
        """Count the votes on record that `vote_set` did not see."""
        with self._lock:
            known = self._counted.get(vote_set, _Counted(0, vote_set))
        row = conn.execute(_COUNT, {"vote_set": known.vote_set}).one()
        # Votes restored from another cluster may be visible and still in no set: they are counted each time. Without
        # a new vote the set is not kept, since this transaction may be older than the one that counted last.
        if row.seen:
            with self._lock:
                self._counted[vote_set] = _Counted(known.votes + row.seen, row.vote_set)
        return known.votes + int(row.votes)


def count_votes(conn: Connection, *, at_most: int) -> int:
    """Count the votes on record, but no further than `at_most`."""
    some = select(votes.c.id).limit(at_most).subquery()
    return conn.execute(select(func.count()).select_from(some)).scalar_one()


def anything_new_since(conn: Connection, vote_set: str) -> bool:
    """Whether anything that refits read is on record that `vote_set` did not see, such as a vote or a policy."""
    return bool(conn.execute(_ANYTHING_NEW, {"vote_set": vote_set}).scalar_one())


# Built once: that takes three times as long as the database needs for it, and readers ask often.
_ANYTHING_NEW = select(
    or_(
        *(
            select(t.c.recorded_in)
            .where(unseen_by(t.c.recorded_in, bindparam("vote_set", type_=_PgSnapshot())))
            .exists()
            for t in _WATCHED
        )
    )
)


def contestants_of(conn: Connection, vote_set: str) -> Contestants:
    """Return for which models votes counted when the set was read."""
    return read_contestants(conn, seen_by(model_merges.c.recorded_in, vote_set))


def seconds_since_first_vote(conn: Connection) -> float | None:
    """Return how long ago the first vote came in; None before it."""
    ago = func.extract("epoch", func.now() - votes.c.received_at)
    found = conn.execute(select(ago).order_by(votes.c.id).limit(1)).scalar_one_or_none()  # ids grow with time
    return None if found is None else float(found)


def seconds_with_more_votes_than(conn: Connection, votes_wanted: int, *, annotators: int = 1) -> float | None:
    """Return for how long so many annotators have had more than so many votes that are not retracted.

    None if fewer annotators have.

    Reads and sorts every vote.
    """
    order = func.row_number().over(partition_by=votes.c.annotator_id, order_by=votes.c.received_at).label("number")
    overall = votes.c.criterion.is_(None)
    counted = select(votes.c.received_at, order).where(overall, not_(is_retracted(votes.c.id))).subquery()
    ago = func.extract("epoch", func.now() - counted.c.received_at)
    statement = select(ago).where(counted.c.number == votes_wanted + 1).order_by(counted.c.received_at)
    found = conn.execute(statement.offset(annotators - 1).limit(1)).scalar_one_or_none()
    return None if found is None else float(found)


def count_retracted(conn: Connection, vote_set: str | None = None) -> int:
    """Count the overall votes on record that are retracted, or those that were when `vote_set` was read.

    A ranking counts with each of its pairs, as a fit reads it.
    """
    causes = _causes_in_force(vote_set).subquery()
    ranked = func.jsonb_array_length(func.jsonb_path_query_array(votes.c.ranking, literal_column("'$[*][*]'")))
    pairs = func.coalesce(ranked * (ranked - 1) // 2, 1)
    statement = select(func.coalesce(func.sum(pairs), 0)).where(votes.c.id.in_(select(causes.c.vote_id)))
    statement = statement.where(votes.c.criterion.is_(None))
    if vote_set is not None:
        statement = statement.where(seen_by(votes.c.recorded_in, vote_set))
    return int(conn.execute(statement).scalar_one())


def holds_foreign_rows(conn: Connection) -> bool:
    """Whether votes are on record that another database cluster recorded, restored here from a dump.

    Their `recorded_in` counts that cluster's transactions, and may lie in this one's future.
    """
    newest = select(votes.c.recorded_in).order_by(votes.c.recorded_in.desc()).limit(1).scalar_subquery()
    in_future = newest >= func.pg_snapshot_xmax(func.pg_current_snapshot())
    return bool(conn.execute(select(func.coalesce(in_future, False))).scalar_one())
