import contextlib
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

import structlog
from sqlalchemy import Connection
from structlog.contextvars import bound_contextvars

from app.database.engine import Database
from app.database.leases import LeasedJob
from app.errors import StableArenaError, UnavailableError
from app.policy.service import current_policy
from app.rating.errors import NoCommonRankingError, RatingError
from app.refits.fit.fit import fit_snapshot
from app.refits.fit.interface import FitInput, FitOutput
from app.refits.fit.parts import log_left_out
from app.refits.fit.process import FitCancelledError, FitProcess, FitResources
from app.refits.guard import reason_to_hold
from app.refits.load import load_fit_input
from app.refits.publish import apply_standings, write_snapshot
from app.refits.queries import (
    advance_refit,
    cancel_is_requested,
    claim_refit,
    end_refit,
    fail_lost_refits,
    queue_refit,
    refit_is_queued,
)
from app.refits.schedule import REFIT_LEASE, due_trigger
from app.refits.schemas import Refit
from app.refits.service import find_refit, request_refit
from app.snapshots.first_leaderboard import read_first_leaderboard_needs
from app.snapshots.queries import newest_snapshot
from app.votes.kept import KeptVotes
from app.webhooks.events import announce

log = structlog.get_logger()

_POLL_SECONDS = 0.2
_REMEDY = "if that is right, publish it by: stable-arena refit --accept-exclusions --reason TEXT"


class NeedsReviewError(StableArenaError):
    """The fit succeeded, but an admin has to accept it before it is published."""

    code = "needs-review"
    title = "The refit waits for review"


class TooFewVotesError(StableArenaError):
    """There are fewer annotators or votes than the policy asks of a first leaderboard."""

    code = "too-few-votes"
    title = "Too few votes for a first leaderboard"


class RefitNotPublishedError(StableArenaError):
    """A refit ended without a new snapshot."""

    code = "refit-not-published"
    title = "The refit published nothing"


class SupersededError(StableArenaError):
    """Another worker took over the lease before this one could publish."""

    code = "superseded"
    title = "Another worker took over"


_END_STATES: dict[type[Exception], str] = {
    NoCommonRankingError: "needs_review",
    NeedsReviewError: "needs_review",
    SupersededError: "superseded",
    FitCancelledError: "cancelled",
}
"""How a refit ends with these errors; with all others it has failed."""


@dataclass
class _Run:
    """A refit that this process has claimed, and the seconds that its stages took."""

    id: UUID
    job: LeasedJob
    accept_exclusions: bool
    seconds: dict[str, float] = field(default_factory=dict)


class RefitRunner:
    """Runs refits: schedule, load, fit, publish. Of all processes on the database one at a time runs a refit.

    A runner owns its transactions: the claim, the load, and the publication. None is open while a fit runs.

    `process`: fits in a child process; several runners may share one.
    `comparisons`: also publish leaderboards by other methods and by tag.
    `kept`: where the votes read are kept for the next refit; None reads all votes each time.
    """

    def __init__(
        self,
        database: Database,
        *,
        lease_seconds: float,
        process: FitProcess | None = None,
        comparisons: bool = True,
        kept: KeptVotes | None = None,
    ) -> None:
        self._database = database
        self._comparisons = comparisons
        self._lease_seconds = lease_seconds
        self._process = process or FitProcess()
        self._kept = kept

    def run_next(self, *, scheduled: bool) -> UUID | None:
        """Run the refit that waits or, if `scheduled`, one that is due; return its id.

        None if there is nothing to run or another process holds the lease. How the refit ended, failures included, is
        on its record.

        Raises UnavailableError: the database cannot be reached. The next holder of the lease marks the refit as lost.
        """
        job = LeasedJob(self._database, REFIT_LEASE, self._lease_seconds)
        run = job.claim(lambda conn: self._begin(conn, job, scheduled=scheduled))
        if run is None:
            return None
        with bound_contextvars(refit=str(run.id)), job:
            self._run(run)
        return run.id

    def start(self) -> None:
        """Start the process that fits, so that the first refit need not wait for it."""
        self._process.start()

    def stop(self) -> None:
        """End a fit under way, from another thread. Its refit fails, and this runner starts no other."""
        self._process.stop()

    def _begin(self, conn: Connection, job: LeasedJob, *, scheduled: bool) -> _Run | None:
        lost = fail_lost_refits(conn, job.epoch)
        if lost:
            log.warning("refits_lost", count=lost)
        trigger = due_trigger(conn) if scheduled and not refit_is_queued(conn) else None
        if trigger is not None:
            queue_refit(conn, trigger=trigger, requested_by="schedule", accept_exclusions=False)
        row = claim_refit(conn, job.epoch)
        return None if row is None else _Run(row["id"], job, row["accept_exclusions"])

    def _run(self, run: _Run) -> None:
        """Load, fit and publish. Every error is put on the refit's record."""
        started = time.perf_counter()
        try:
            self._process.start()  # while the votes are read
            fit_input = self._load(run)
            output = self._fit(run, fit_input)
            self._publish(run, fit_input, output)
        except UnavailableError as error:
            # On a full disk this small write may still succeed. If not, the next holder of the lease says so.
            with contextlib.suppress(UnavailableError):
                self._end(run, "failed", error.detail)
            raise
        except (RatingError, StableArenaError) as error:
            self._end(run, _END_STATES.get(type(error), "failed"), str(error))
        except Exception as error:  # a bug must not end the worker
            log.exception("refit_broke")
            self._end(run, "failed", f"unexpected {type(error).__name__}")
        else:
            log.info("refit_done", seconds=round(time.perf_counter() - started, 3))

    def _load(self, run: _Run) -> FitInput:
        started = time.perf_counter()
        with self._database.read() as conn:
            if newest_snapshot(conn) is None:
                needs = read_first_leaderboard_needs(conn, current_policy(conn).settings)
                if not needs.met:
                    raise TooFewVotesError(needs.describe())
            fit_input = load_fit_input(conn, kept=self._kept)
        run.seconds["read"] = time.perf_counter() - started
        return fit_input

    def _fit(self, run: _Run, fit_input: FitInput) -> FitOutput:
        self._advance(run, "fitting")
        work = partial(fit_snapshot, fit_input, comparisons=self._comparisons)
        output = self._process.run(work, cancelled=lambda: self._is_cancelled(run))
        run.seconds.update(output.seconds)
        log_left_out(output.notices)
        if "compile" in output.seconds:
            log.warning("kernels_compiled", seconds=round(output.seconds["compile"], 1), ahead="stable-arena compile")
        reason = None if run.accept_exclusions else reason_to_hold(fit_input, output)
        if reason is not None:
            raise NeedsReviewError(f"{reason}; {_REMEDY}")
        return output

    def _publish(self, run: _Run, fit_input: FitInput, output: FitOutput) -> None:
        self._advance(run, "publishing")
        started = time.perf_counter()
        with self._database.begin() as conn:
            snapshot_id = write_snapshot(conn, run.id, fit_input, output, run.seconds)
            if not run.job.lock(conn):
                raise SupersededError("another worker took over before the leaderboard was published")
            apply_standings(conn, snapshot_id)
            run.seconds["publish"] = time.perf_counter() - started
            end_refit(conn, run.id, run.job.epoch, "done", seconds=run.seconds)
        if self._kept is not None:
            self._kept.keep(snapshot_id)

    def _advance(self, run: _Run, state: str) -> None:
        if self._is_cancelled(run):
            raise FitCancelledError(f"the refit was cancelled before {state}")
        with self._database.begin() as conn:
            advance_refit(conn, run.id, run.job.epoch, state, run.seconds)

    def _is_cancelled(self, run: _Run) -> bool:
        with self._database.read() as conn:
            return cancel_is_requested(conn, run.id)

    def _end(self, run: _Run, state: str, detail: str) -> None:
        log.warning("refit_not_published", state=state, detail=detail)
        with self._database.begin() as conn:
            # The publication may have been committed although its answer was lost; then the refit stays done.
            ended = end_refit(conn, run.id, run.job.epoch, state, seconds=run.seconds, detail=detail)
            if ended and state in ("failed", "needs_review"):
                announce(conn, "refit.failed", {"refit": str(run.id), "state": state, "detail": detail})


def refit_now(
    database: Database,
    *,
    lease_seconds: float,
    requested_by: str,
    resources: FitResources | None = None,
    accept_exclusions: bool = False,
    reason: str | None = None,
) -> Refit:
    """Request a refit and wait for its end. It runs here or, if another process holds the lease, there.

    Raises RefitNotPublishedError: it failed, waits for review, or lost its lease; the detail says which and why.
    """
    with database.begin() as conn:
        refit_id = request_refit(
            conn, trigger="command", requested_by=requested_by, accept_exclusions=accept_exclusions, reason=reason
        )
    runner = RefitRunner(database, lease_seconds=lease_seconds, process=FitProcess(resources))
    pause = threading.Event()
    try:
        while True:
            ran = runner.run_next(scheduled=False)
            with database.read() as conn:
                refit = find_refit(conn, refit_id)
            if refit.ended:
                break
            if ran is None:
                pause.wait(_POLL_SECONDS)
    finally:
        runner.stop()
    if refit.state != "done":
        raise RefitNotPublishedError(f"the refit ended as {refit.state.replace('_', ' ')}: {refit.detail}")
    return refit
