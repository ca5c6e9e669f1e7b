import threading

from app.database.engine import Database
from app.errors import StableArenaError
from app.refits.fit.process import FitProcess, FitResources
from app.refits.runner import RefitRunner
from app.refits.schemas import Refit
from app.refits.service import find_refit, request_refit

_POLL_SECONDS = 0.2


class RefitNotPublishedError(StableArenaError):
    """A refit ended without a new snapshot."""

    code = "refit-not-published"
    title = "The refit published nothing"


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

    Raises
    ------
    RefitNotPublishedError
        It failed, waits for review, or lost its lease; the detail says which and why.
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
