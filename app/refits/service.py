from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from app.audit import service as audit
from app.errors import BadInputError, ConflictError, found
from app.refits import queries as store
from app.refits.schemas import Refit


def request_refit(
    conn: Connection, *, trigger: str, requested_by: str, accept_exclusions: bool = False, reason: str | None = None
) -> UUID:
    """Request a refit, or join the one that waits already; return its id.

    Accepting exclusions, which the guard would hold back, is recorded on the audit log with its reason.

    Raises BadInputError: there is a reason without accept_exclusions: it would not be kept.
    """
    if reason is not None and not accept_exclusions:
        raise BadInputError.at("/reason", "is kept for accept_exclusions only, which is not set")
    refit_id = store.queue_refit(conn, trigger=trigger, requested_by=requested_by, accept_exclusions=accept_exclusions)
    if accept_exclusions:
        detail = {} if reason is None else {"reason": reason}
        audit.record(conn, actor=requested_by, action="refit.accept_exclusions", subject=str(refit_id), detail=detail)
    return refit_id


def find_refit(conn: Connection, refit_id: UUID) -> Refit:
    """Return a refit. Raises NotFoundError."""
    row = found(store.get_refit(conn, refit_id), f"refit {refit_id}")
    return _with_progress(row, store.typical_seconds(conn))


def cancel_refit(conn: Connection, refit_id: UUID) -> Refit:
    """End a refit that waits, or make the worker end it soon; the leaderboard stays as it is.

    A refit that is publishing may be done before it notices.

    Raises NotFoundError.
    Raises ConflictError: it has ended.
    """
    if not store.request_cancel(conn, refit_id):
        refit = find_refit(conn, refit_id)
        raise ConflictError(f"the refit has ended already, as {refit.state.replace('_', ' ')}")
    return find_refit(conn, refit_id)


def list_refits(conn: Connection, *, limit: int, before: tuple[datetime, UUID] | None = None) -> list[Refit]:
    """Return refits, the newest request first."""
    typical = store.typical_seconds(conn)
    return [_with_progress(row, typical) for row in store.list_refits(conn, limit=limit, before=before)]


def _with_progress(row: RowMapping, typical: float | None) -> Refit:
    """Add the progress, from the time that the last refit took: no stage knows how much of it is left."""
    if row["finished_at"] is not None:
        progress = 1.0
    elif row["started_at"] is None or typical is None:
        progress = 0.0
    else:
        progress = min(float(row["running_seconds"]) / max(typical, 0.1), 0.99)
    return Refit.model_validate({**row, "progress": progress})
