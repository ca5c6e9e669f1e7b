"""Deletes rows of old snapshots: annotators, matchups, charts, pair weights and leaderboards by tag.

Leaderboards of all votes stay, and so do the rows that show when an annotator's standing changed.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import structlog
from sqlalchemy import Connection, delete, func, select, text, update

from app.database.engine import Database
from app.database.leases import LeasedJob
from app.database.tables import (
    snapshot_charts,
    snapshot_confidence,
    snapshot_matchups,
    snapshot_models,
    snapshot_pair_weights,
    snapshots,
)

log = structlog.get_logger()

RETENTION_LEASE = "retention"
_SNAPSHOTS_AT_A_TIME = 500

# The last snapshot of a day is the one whose successor belongs to another day; the newest has no successor.
_PRUNABLE = text(
    """
    SELECT id
    FROM (
        SELECT id, number, published_at, crowd_pruned_at, lead(published_at) OVER (ORDER BY number) AS next_at
        FROM snapshots
    ) AS followed
    WHERE crowd_pruned_at IS NULL
        AND next_at IS NOT NULL
        AND published_at < clock_timestamp() - :whole
        AND date_trunc('month', published_at, 'UTC') = date_trunc('month', next_at, 'UTC')
        AND (
            published_at < clock_timestamp() - :daily
            OR date_trunc('day', published_at, 'UTC') = date_trunc('day', next_at, 'UTC')
        )
    ORDER BY number
    LIMIT :most
    """
)

# A row stays if the annotator's standing differs from that in the snapshot before or after, or if a decision was taken
# on it. A neighbour that is pruned already may lack the row; then it had the same standing as its own neighbour.
_DELETE_PIECE = text(
    """
    DELETE FROM snapshot_annotators AS own
    WHERE own.snapshot_id = :snapshot AND own.annotator_id > :after AND own.annotator_id <= :last
        AND NOT EXISTS (
            SELECT FROM snapshot_annotators AS near
            WHERE near.snapshot_id IN (:before_it, :after_it) AND near.annotator_id = own.annotator_id
                AND near.standing <> own.standing
        )
        AND NOT EXISTS (
            SELECT FROM decisions AS decided
            WHERE decided.annotator_id = own.annotator_id AND decided.snapshot_id = own.snapshot_id
        )
    """
)

_END_OF_PIECE = text(
    """
    SELECT max(annotator_id)
    FROM (
        SELECT annotator_id FROM snapshot_annotators
        WHERE snapshot_id = :snapshot AND annotator_id > :after
        ORDER BY annotator_id
        LIMIT :rows
    ) AS piece
    """
)


@dataclass(frozen=True)
class Retention:
    """How long snapshots keep their annotators and matchups. The scores of models are kept for ever.

    Attributes
    ----------
    whole : snapshots younger than this are kept whole
    daily : of older snapshots, the last of each day (UTC) is kept whole up to this age, then the last of each month
    """

    whole: timedelta = timedelta(days=7)
    daily: timedelta = timedelta(days=90)


class Pruner:
    """Prunes old snapshots, a few rows at a time. Of all processes on the database one at a time prunes.

    It owns its transactions, each short, and touches no row that a publication writes. If it is cut short, the next run
    continues. A snapshot records when its pruning began (`crowd_pruned_at`).
    """

    def __init__(
        self, database: Database, retention: Retention, *, lease_seconds: float = 30.0, rows_at_a_time: int = 5_000
    ) -> None:
        self._database = database
        self._retention = retention
        self._lease_seconds = lease_seconds
        self._rows_at_a_time = rows_at_a_time
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End the run under way, from another thread."""
        self._stopped.set()

    def prune(self) -> int:
        """Prune the snapshots that are due; return how many. Raises UnavailableError."""
        job = LeasedJob(self._database, RETENTION_LEASE, self._lease_seconds)
        due = job.claim(self._list_due)
        if due is None:
            return 0
        pruned = 0
        with job:
            for snapshot_id, is_new in due.items():
                if not self._prune_one(snapshot_id, job):
                    break
                pruned += is_new
        if pruned:
            log.info("snapshots_pruned", count=pruned)
        return pruned

    def _list_due(self, conn: Connection) -> dict[UUID, bool] | None:
        """Return the snapshots to prune and whether each is new; the one that was cut short is finished first."""
        daily = max(self._retention.daily, self._retention.whole)
        due = list_prunable(conn, whole=self._retention.whole, daily=daily, at_most=_SNAPSHOTS_AT_A_TIME)
        cut_short = last_pruned(conn)
        return dict.fromkeys([cut_short] if cut_short else [], False) | dict.fromkeys(due, True) or None

    def _prune_one(self, snapshot_id: UUID, job: LeasedJob) -> bool:
        """Prune one snapshot; False if it was cut short."""
        with self._database.begin() as conn:
            if not job.lock(conn):
                return False
            near = neighbours(conn, snapshot_id)
            begin_pruning(conn, snapshot_id)
        after: int | None = 0
        while after is not None:
            if self._stopped.is_set():
                return False
            with self._database.begin() as conn:
                if not job.lock(conn):
                    return False
                after = prune_piece(conn, snapshot_id, near, after=after, rows=self._rows_at_a_time)
        return True


def list_prunable(conn: Connection, *, whole: timedelta, daily: timedelta, at_most: int) -> Sequence[UUID]:
    """Return the snapshots to prune, the oldest first.

    Kept whole are: snapshots younger than `whole`; the last of each day (UTC) if younger than `daily`; the last of each
    month; and the newest.
    """
    return conn.execute(_PRUNABLE, {"whole": whole, "daily": daily, "most": at_most}).scalars().all()


def last_pruned(conn: Connection) -> UUID | None:
    """Return the snapshot whose pruning began last. It may have been cut short."""
    statement = select(snapshots.c.id).where(snapshots.c.crowd_pruned_at.is_not(None))
    return conn.execute(statement.order_by(snapshots.c.crowd_pruned_at.desc()).limit(1)).scalar_one_or_none()


def begin_pruning(conn: Connection, snapshot_id: UUID) -> None:
    """Mark a snapshot as pruned; delete its matchups, charts, pair weights, joint errors and leaderboards by tag."""
    here = snapshots.c.id == snapshot_id
    conn.execute(
        update(snapshots)
        .where(here, snapshots.c.crowd_pruned_at.is_(None))
        .values(crowd_pruned_at=func.clock_timestamp())
    )
    for table in (snapshot_matchups, snapshot_charts, snapshot_pair_weights, snapshot_confidence):
        conn.execute(delete(table).where(table.c.snapshot_id == snapshot_id))
    of_tag = snapshot_models.c.tag != ""
    conn.execute(delete(snapshot_models).where(snapshot_models.c.snapshot_id == snapshot_id, of_tag))


def neighbours(conn: Connection, snapshot_id: UUID) -> tuple[UUID | None, UUID | None]:
    """Return the snapshots published right before and right after this one."""
    number = select(snapshots.c.number).where(snapshots.c.id == snapshot_id).scalar_subquery()
    earlier = select(snapshots.c.id).where(snapshots.c.number < number).order_by(snapshots.c.number.desc()).limit(1)
    later = select(snapshots.c.id).where(snapshots.c.number > number).order_by(snapshots.c.number).limit(1)
    return conn.execute(earlier).scalar_one_or_none(), conn.execute(later).scalar_one_or_none()


def prune_piece(
    conn: Connection, snapshot_id: UUID, near: tuple[UUID | None, UUID | None], *, after: int, rows: int
) -> int | None:
    """Delete what need not stay of a snapshot's next annotators: the first `rows` with an id above `after`.

    Returns the last id, None if there were no more rows.
    """
    last: int | None = conn.execute(
        _END_OF_PIECE, {"snapshot": snapshot_id, "after": after, "rows": rows}
    ).scalar_one_or_none()
    if last is not None:
        piece = {"snapshot": snapshot_id, "after": after, "last": last, "before_it": near[0], "after_it": near[1]}
        conn.execute(_DELETE_PIECE, piece)
    return last
