import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from uuid import UUID

import structlog
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from app.database.engine import Database
from app.database.interruption import InterruptedWorkError, Interruption
from app.errors import UnavailableError
from app.exports.runner import ExportRunner
from app.imports.runner import ImportProcess, ImportRunner
from app.leaderboard.charts import draw_newest
from app.leaderboard.fragility import measure_newest
from app.policy.service import current_policy
from app.refits.fit.process import FitCancelledError, FitProcess, FitResources
from app.refits.runner import RefitRunner
from app.refits.schedule import refit_can_begin, work_waits
from app.settings import Settings
from app.snapshots.freshness import announce_stale_leaderboard
from app.snapshots.retention import Pruner, Retention
from app.votes.kept import KeptVotes
from app.webhooks.delivery import Deliverer

log = structlog.get_logger()

TICK_SECONDS = 1.0
_PRUNE_SECONDS = 300.0
_THREADS = ("refits", "charts", "alerts", "webhooks", "files", "pruning")


class Worker:
    """Does the background work: refits and what follows them, webhooks, imports, exports, pruning of old snapshots.

    Each kind of work has a thread, which looks at every tick whether there is something to do. APScheduler gives the
    ticks. Any number of workers may share one database.

    Parameters
    ----------
    prepare_child : called in the process that reads uploaded files, to configure its log
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        *,
        tick_seconds: float = TICK_SECONDS,
        prepare_child: Callable[[], None] | None = None,
    ) -> None:
        lease_seconds = settings.worker.lease_seconds
        self._database = database
        self._lease_seconds = lease_seconds
        self._process = FitProcess(FitResources.chosen(settings))
        self._refits = RefitRunner(
            database, lease_seconds=lease_seconds, process=self._process, kept=KeptVotes(settings.data_dir / "votes")
        )
        self._webhooks = Deliverer(database, allow_private=settings.webhooks.allow_private_addresses)
        self._imports = ImportRunner(
            database,
            lease_seconds=lease_seconds,
            process=ImportProcess(memory_bytes=settings.imports.memory_bytes, priority=0, prepare=prepare_child),
        )
        self._exports = ExportRunner(database, lease_seconds=lease_seconds, keep_days=settings.exports.keep_days)
        retention = Retention(
            whole=timedelta(days=settings.retention.whole_days), daily=timedelta(days=settings.retention.daily_days)
        )
        self._pruner = Pruner(database, retention, lease_seconds=lease_seconds)
        self._unavailable = False
        self._interrupted = False
        self._drawing = Interruption()
        self._stopping = threading.Event()
        self._scheduler = BackgroundScheduler(
            timezone=UTC, executors={name: ThreadPoolExecutor(1) for name in _THREADS}
        )
        # APScheduler warns of a tick that finds the last one still at work: a refit may take many ticks.
        logging.getLogger("apscheduler").setLevel(logging.ERROR)
        self._clock_watch = threading.Thread(target=self._watch_clock, args=[tick_seconds], daemon=True)
        # In one thread, so that the two take turns with the one process that fits.
        self._run_every(tick_seconds, self.run_refit, "refits")
        self._run_every(tick_seconds, self.measure_fragility, "refits")
        self._run_every(tick_seconds, self.draw_charts, "charts")
        self._run_every(tick_seconds, self.announce_stale, "alerts")
        self._run_every(tick_seconds, self.deliver_webhooks, "webhooks")
        self._run_every(tick_seconds, self.run_files, "files")
        self._run_every(_PRUNE_SECONDS, self.prune_snapshots, "pruning")

    def start(self) -> None:
        """Begin to tick, in threads of its own."""
        self._refits.start()
        self._scheduler.start()
        self._clock_watch.start()

    def stop(self) -> None:
        """Stop ticking, and interrupt what is under way.

        A fit is killed and its refit recorded as failed. Another worker goes on with the import and the pruning, and
        begins the export and the charts again.
        """
        self._stopping.set()
        self._refits.stop()
        self._webhooks.stop()
        self._imports.stop()
        self._exports.stop()
        self._drawing.interrupt()
        self._pruner.stop()
        if self._scheduler.running:
            self._clock_watch.join()
            self._scheduler.shutdown(wait=True)

    def run_refit(self) -> UUID | None:
        """Run the refit that was asked for or is due; return its id, None if there is none."""
        try:
            with self._database.read() as conn:
                waits = work_waits(conn)
            ran = self._refits.run_next(scheduled=True) if waits else None
        except UnavailableError as error:
            if not self._unavailable:
                log.warning("database_unavailable", detail=error.detail)
            self._unavailable = True
            return None
        if self._unavailable:
            log.info("database_available_again")
        self._unavailable = False
        return ran

    # The other jobs do not log that the database is unavailable: `run_refit` does.

    def measure_fragility(self) -> bool:
        """Find how few votes decide the newest leaderboard, if that is not known; return whether it has been found.

        A refit interrupts it, and it begins again later. Refits by schedule do so once and then wait for its end:
        otherwise refits in close succession would leave no time for it.
        """
        try:
            found = measure_newest(
                self._database, self._process, lease_seconds=self._lease_seconds, cancelled=self._refit_goes_first
            )
        except UnavailableError:
            return False
        except FitCancelledError:
            log.info("fragility_interrupted")
            self._interrupted = True
            return False
        self._interrupted = False
        return found

    def draw_charts(self) -> bool:
        """Draw the newest snapshot's charts if it has none; return whether there was something to draw."""
        with suppress(UnavailableError, InterruptedWorkError):
            return draw_newest(self._database, self._drawing)
        return False

    def announce_stale(self) -> None:
        """Send webhooks a message if the leaderboard has become stale."""
        with suppress(UnavailableError), self._database.begin() as conn:
            announce_stale_leaderboard(conn, current_policy(conn).settings)

    def deliver_webhooks(self) -> None:
        """Send the messages that are due to webhooks, and those that become due meanwhile."""
        with suppress(UnavailableError):
            self._webhooks.deliver_due()

    def run_files(self) -> None:
        """Run the imports and exports that wait, after dropping files that are no longer needed."""
        with suppress(UnavailableError):
            self._imports.drop_abandoned()
            self._exports.drop_old()
            while not self._imports.stopped and (self._exports.run_next() or self._imports.run_next()):
                pass

    def prune_snapshots(self) -> None:
        """Prune old snapshots."""
        with suppress(UnavailableError):
            self._pruner.prune()

    def _refit_goes_first(self) -> bool:
        with self._database.read() as conn:
            return refit_can_begin(conn, scheduled=not self._interrupted)

    def _run_every(self, seconds: float, job: Callable[[], object], thread: str) -> None:
        """Run a job every so many seconds; where it takes longer, ticks are left out."""
        self._scheduler.add_job(
            job, "interval", seconds=seconds, executor=thread, coalesce=True, max_instances=1, misfire_grace_time=None
        )

    def _watch_clock(self, seconds: float) -> None:
        """Bring forward what a clock that was set back would hold up: APScheduler follows the machine's clock."""
        while not self._stopping.wait(seconds):
            now = datetime.now(UTC)
            for job in self._scheduler.get_jobs():
                if job.next_run_time > now + 2 * job.trigger.interval:
                    job.modify(next_run_time=now)
