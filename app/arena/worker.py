import logging
from datetime import UTC
from uuid import UUID

import structlog
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from app.arena.fitting import FitLimits, FitProcess
from app.arena.policy import current_policy
from app.arena.runner import RefitRunner
from app.arena.schedule import work_waits
from app.arena.webhooks.delivery import Deliverer
from app.arena.webhooks.events import announce_stale_board
from app.errors import UnavailableError
from app.store.database import Database

log = structlog.get_logger()


class Worker:
    """Looks every tick whether a refit is due and whether webhooks wait. Any number may share one database."""

    def __init__(
        self,
        database: Database,
        *,
        tick_seconds: float,
        lease_seconds: float,
        limits: FitLimits | None = None,
        private_webhooks: bool = False,
    ) -> None:
        self._database = database
        self._deliverer = Deliverer(database, allow_private=private_webhooks)
        self._runner = RefitRunner(database, lease_seconds=lease_seconds, process=FitProcess(limits))
        self._unavailable = False
        self._scheduler = BackgroundScheduler(timezone=UTC, executors={"default": ThreadPoolExecutor(2)})
        # A tick that finds the last one still at its refit is nothing to report.
        logging.getLogger("apscheduler").setLevel(logging.ERROR)
        for job in (self.tick, self.tell):
            self._scheduler.add_job(
                job, "interval", seconds=tick_seconds, coalesce=True, max_instances=1, misfire_grace_time=None
            )

    def start(self) -> None:
        """Begin to tick, in a thread of its own."""
        self._scheduler.start()

    def stop(self) -> None:
        """Stop ticking; a fit under way is cut short and its refit put on record as failed."""
        self._runner.stop()
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
                announce_stale_board(conn, current_policy(conn).settings.stale_after_seconds)
            return self._deliverer.deliver_due()
        except UnavailableError:
            return 0  # the other job says so
