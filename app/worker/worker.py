import logging
from contextlib import suppress
from datetime import UTC
from typing import Any
from uuid import UUID

import structlog
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from app.database.engine import Database
from app.errors import UnavailableError
from app.policy.service import current_policy
from app.refits.fit.process import FitLimits, FitProcess
from app.refits.runner import RefitRunner
from app.refits.schedule import work_waits
from app.snapshots.retention.service import Pruner, Retention
from app.webhooks.delivery import Deliverer
from app.webhooks.events import announce_stale_leaderboard
from app.worker.file_jobs import FileJobs

log = structlog.get_logger()

_PRUNE_SECONDS = 300.0


class Worker:
    """Looks every tick whether a refit is due and whether webhooks wait. Any number may share one database.

    Imports and exports run beside refits, in another thread, where `file_jobs` are given. Old snapshots are pruned in a
    third, every five minutes, where there is a `retention`.
    """

    def __init__(
        self,
        database: Database,
        *,
        tick_seconds: float,
        lease_seconds: float,
        limits: FitLimits | None = None,
        file_jobs: FileJobs | None = None,
        private_webhooks: bool = False,
        retention: Retention | None = None,
    ) -> None:
        self._database = database
        self._deliverer = Deliverer(database, allow_private=private_webhooks)
        self._runner = RefitRunner(database, lease_seconds=lease_seconds, process=FitProcess(limits))
        self._unavailable = False
        self._file_jobs = file_jobs
        self._pruner = None if retention is None else Pruner(database, retention, lease_seconds=lease_seconds)
        executors = {name: ThreadPoolExecutor(1) for name in ("default", "files", "webhooks", "retention")}
        self._scheduler = BackgroundScheduler(timezone=UTC, executors=executors)
        # A tick that finds the last one still at its refit is nothing to report.
        logging.getLogger("apscheduler").setLevel(logging.ERROR)
        ticking: dict[str, Any] = {"coalesce": True, "max_instances": 1, "misfire_grace_time": None}
        self._scheduler.add_job(self.tick, "interval", seconds=tick_seconds, **ticking)
        self._scheduler.add_job(self.tell, "interval", seconds=tick_seconds, executor="webhooks", **ticking)
        if file_jobs is not None:
            self._scheduler.add_job(self.tick_files, "interval", seconds=tick_seconds, executor="files", **ticking)
        if self._pruner is not None:
            self._scheduler.add_job(self.prune, "interval", seconds=_PRUNE_SECONDS, executor="retention", **ticking)

    def start(self) -> None:
        """Begin to tick, in a thread of its own."""
        self._scheduler.start()

    def stop(self) -> None:
        """Stop ticking; a fit under way is cut short and its refit put on record as failed.

        An import under way is let go of, to be taken on by the next worker.
        """
        self._runner.stop()
        if self._file_jobs is not None:
            self._file_jobs.stop()
        if self._pruner is not None:
            self._pruner.stop()
        if self._scheduler.running:
            self._scheduler.shutdown(wait=True)

    def tick(self) -> UUID | None:
        """Run what waits or is due; return the id of the refit that was run."""
        try:
            with self._database.read() as conn:
                waits = work_waits(conn)
            ran = self._runner.run_next(scheduled=True) if waits else None
        except UnavailableError as error:
            if not self._unavailable:
                log.warning("database_unavailable", detail=error.detail)
            self._unavailable = True
            return None
        if self._unavailable:
            log.info("database_available_again")
        self._unavailable = False
        return ran

    def tell(self) -> int:
        """Send what webhooks are to be told; return how many messages were tried."""
        try:
            with self._database.begin() as conn:
                announce_stale_leaderboard(conn, current_policy(conn).settings)
            return self._deliverer.deliver_due()
        except UnavailableError:
            return 0  # said by the other tick

    def tick_files(self) -> None:
        """Run the imports and exports that wait."""
        assert self._file_jobs is not None  # noqa: S101  the job is only added with them
        with suppress(UnavailableError):  # said by the other tick
            self._file_jobs.run_waiting()

    def prune(self) -> None:
        """Prune old snapshots."""
        assert self._pruner is not None  # noqa: S101  the job is only added with it
        with suppress(UnavailableError):  # said by the other tick
            self._pruner.prune()
