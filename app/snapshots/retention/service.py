import threading
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import structlog
from sqlalchemy import Connection

from app.database.engine import Database
from app.database.leases import LeasedJob
from app.snapshots.retention import queries as store

log = structlog.get_logger()

RETENTION_LEASE = "retention"
_SNAPSHOTS_AT_A_TIME = 500


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
        """Prune the snapshots that are due; return how many.

        Raises
        ------
        UnavailableError
        """
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
        due = store.list_prunable(conn, whole=self._retention.whole, daily=daily, at_most=_SNAPSHOTS_AT_A_TIME)
        cut_short = store.last_pruned(conn)
        return dict.fromkeys([cut_short] if cut_short else [], False) | dict.fromkeys(due, True) or None

    def _prune_one(self, snapshot_id: UUID, job: LeasedJob) -> bool:
        """Prune one snapshot; False if it was cut short."""
        with self._database.begin() as conn:
            near = store.neighbours(conn, snapshot_id)
            store.begin_pruning(conn, snapshot_id)
        after: int | None = 0
        while after is not None:
            if self._stopped.is_set():
                return False
            with self._database.begin() as conn:
                if not job.lock(conn):
                    return False
                after = store.prune_piece(conn, snapshot_id, near, after=after, rows=self._rows_at_a_time)
        return True
