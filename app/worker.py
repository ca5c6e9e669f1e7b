import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

import structlog
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.job import Job
from apscheduler.schedulers.background import BackgroundScheduler

from app.answers.rendered import RenderProcess, render_waiting
from app.database.engine import Database
from app.database.interruption import InterruptedWorkError, Interruption
from app.database.notices import TICK_SECONDS, Notices, Subject
from app.errors import UnavailableError
from app.exports.runner import ExportRunner
from app.imports.process import ImportProcess
from app.imports.runner import ImportRunner
from app.leaderboard.charts import draw_newest
from app.policy.service import current_policy
from app.refits.fit.process import FitCancelledError, FitProcess, FitResources
from app.refits.fragility import measure_newest
from app.refits.runner import RefitRunner
from app.refits.schedule import refit_can_begin, seconds_until_work
from app.settings import Settings
from app.snapshots.retention import Pruner, Retention
from app.snapshots.staleness import announce_stale_leaderboard
from app.votes.kept import KeptVotes
from app.webhooks.delivery import Deliverer

log = structlog.get_logger()

_LOOK_SECONDS = 5.0  # for what gives no notice: votes that make a refit due, another worker that died
_ALERT_SECONDS = 60.0
_CLEAN_SECONDS = 300.0
_AGAIN_SECONDS = 1.0  # after a failure of the database, and at least until what is due
_THREADS = ("refits", "charts", "alerts", "webhooks", "files", "answers", "cleaning")


class Worker:
    """Does the background work: refits and what follows them, webhooks, imports, exports, answers as HTML, pruning.

    Each kind of work has a thread, which looks whether there is something to do: at a notice, when APScheduler says
    that something is due, and at every tick. Any number of workers may share one database.

    `notices`: of this process, which the worker starts and stops.
    `prepare_child`: called in the process that reads uploaded files, to configure its log.
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        *,
        notices: Notices | None = None,
        tick_seconds: float = TICK_SECONDS,
        prepare_child: Callable[[], None] | None = None,
    ) -> None:
        lease_seconds = settings.worker.lease_seconds
        self._database = database
        self._lease_seconds = lease_seconds
        self._notices = notices or Notices(database)
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
        self._rendering = RenderProcess(priority=0)
        self._exports = ExportRunner(database, lease_seconds=lease_seconds, keep_days=settings.exports.keep_days)
        retention = Retention(
            whole=timedelta(days=settings.retention.whole_days), daily=timedelta(days=settings.retention.daily_days)
        )
        self._pruner = Pruner(database, retention, lease_seconds=lease_seconds)
        self._unavailable = False
        self._interrupted = False
        self._drawing = Interruption()
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._scheduler = BackgroundScheduler(
            timezone=UTC, executors={name: ThreadPoolExecutor(1) for name in _THREADS}
        )
        # APScheduler warns of a look that it leaves out, because one waits for the work under way to end.
        logging.getLogger("apscheduler").setLevel(logging.ERROR)
        self._clock_watch = threading.Thread(target=self._watch_clock, args=[tick_seconds], daemon=True)
        # Two of them in one thread, so that they take turns with the one process that fits.
        self._refit_job = self._add_job(self.run_refit, "refits", min(_LOOK_SECONDS, tick_seconds), "refits")
        self._add_job(self.measure_fragility, "refits", tick_seconds, "snapshots")
        self._add_job(self.draw_charts, "charts", tick_seconds, "snapshots")
        self._webhook_job = self._add_job(self.deliver_webhooks, "webhooks", tick_seconds, "webhooks")
        self._file_job = self._add_job(self.run_files, "files", tick_seconds, "files")
        self._add_job(self.render_answers, "answers", tick_seconds, "answers")
        self._add_job(self.announce_stale, "alerts", _ALERT_SECONDS)
        self._add_job(self.clean_up, "cleaning", _CLEAN_SECONDS)

    def start(self) -> None:
        """Begin to look for work, in threads of its own."""
        self._refits.start()
        self._scheduler.start()
        self._notices.start()
        self._clock_watch.start()

    def stop(self) -> None:
        """Look for no more work, and interrupt what is under way.

        A fit is killed and its refit recorded as failed. Another worker goes on with the import and the pruning, and
        begins the export and the charts again.
        """
        with self._lock:  # the end of the scheduler would wait for a job that waits for the scheduler
            self._stopping.set()
        self._notices.stop()
        self._refits.stop()
        self._webhooks.stop()
        self._imports.stop()
        self._exports.stop()
        self._rendering.stop()
        self._drawing.interrupt()
        self._pruner.stop()
        if self._scheduler.running:
            self._clock_watch.join()
            self._scheduler.shutdown(wait=True)

    def run_refit(self) -> UUID | None:
        """Run the refit that was asked for or is due; return its id, None if there is none."""
        try:
            with self._database.read() as conn:
                seconds = seconds_until_work(conn)
            ran = self._refits.run_next(scheduled=True) if seconds == 0 else None
            if seconds:
                self._look_again(self._refit_job, seconds)
        except UnavailableError as error:
            if not self._unavailable:
                log.warning("database_unavailable", detail=error.detail)
            self._unavailable = True
            return None
        if self._unavailable:
            log.info("database_available_again")
        self._unavailable = False
        return ran

    def measure_fragility(self) -> bool:
        """Find how few votes decide the newest leaderboard, if that is not known; return whether it has been found.

        A refit interrupts it, and it begins again later. Refits by schedule do so once and then wait for its end:
        otherwise refits in close succession would leave no time for it.
        """
        try:
            found = measure_newest(
                self._database, self._process, lease_seconds=self._lease_seconds, cancelled=self._refit_goes_first
            )
        except FitCancelledError:
            log.info("fragility_interrupted")
            self._interrupted = True
            return False
        self._interrupted = False
        return found

    def draw_charts(self) -> bool:
        """Draw the newest snapshot's charts if it has none; return whether there was something to draw."""
        try:
            return draw_newest(self._database, self._drawing)
        except InterruptedWorkError:
            return False

    def announce_stale(self) -> None:
        """Send webhooks a message if the leaderboard has become stale."""
        with self._database.begin() as conn:
            announce_stale_leaderboard(conn, current_policy(conn).settings)

    def deliver_webhooks(self) -> None:
        """Send the messages that are due to webhooks, and those that become due meanwhile."""
        self._webhooks.deliver_due()
        self._look_again(self._webhook_job, self._webhooks.next_in_seconds)

    def run_files(self) -> None:
        """Run the imports and exports that wait."""
        while not self._imports.stopped and (self._exports.run_next() or self._imports.run_next()):
            pass
        if self._imports.unfinished or self._exports.unfinished:  # another worker is at it, and may have died
            self._look_again(self._file_job, _LOOK_SECONDS)

    def render_answers(self) -> int:
        """Render the answers and prompts that wait; return how many."""
        return render_waiting(
            self._database, self._rendering, lease_seconds=self._lease_seconds, stopped=self._stopping.is_set
        )

    def clean_up(self) -> None:
        """Drop files that are no longer needed, and prune old snapshots."""
        self._imports.drop_abandoned()
        self._exports.drop_old()
        self._pruner.prune()

    def _refit_goes_first(self) -> bool:
        with self._database.read() as conn:
            return refit_can_begin(conn, scheduled=not self._interrupted)

    def _add_job(self, work: Callable[[], object], thread: str, seconds: float, *subjects: Subject) -> Job:
        """Do this work every so many seconds, at notices of these subjects, and soon after a failure of the database.

        While it is under way one more look waits, and any further one is left out.
        """

        def look() -> None:
            try:
                work()
            except UnavailableError:  # `run_refit` logs it
                self._look_again(job, _AGAIN_SECONDS)

        job = self._scheduler.add_job(
            look,
            "interval",
            seconds=seconds,
            next_run_time=datetime.now(UTC),
            executor=thread,
            coalesce=True,
            max_instances=2,
            misfire_grace_time=None,
        )
        for subject in subjects:
            self._notices.call(subject, partial(self._bring_forward, job, 0.0))
        return job

    def _look_again(self, job: Job, seconds: float | None) -> None:
        """Run a job when what it waits for is due, if something is."""
        if seconds is not None:
            self._bring_forward(job, max(seconds, _AGAIN_SECONDS))

    def _bring_forward(self, job: Job, seconds: float) -> None:
        """Run a job so many seconds from now, if that is earlier than it would run."""
        then = datetime.now(UTC) + timedelta(seconds=seconds)
        with self._lock:
            if then < job.next_run_time and not self._stopping.is_set():
                job.modify(next_run_time=then)

    def _watch_clock(self, seconds: float) -> None:
        """Bring forward what a clock that was set back would hold up: APScheduler follows the machine's clock."""
        while not self._stopping.wait(seconds):
            now = datetime.now(UTC)
            for job in self._scheduler.get_jobs():
                if job.next_run_time > now + 2 * job.trigger.interval:
                    job.modify(next_run_time=now)
