from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection, RowMapping

from app.audit import service as audit
from app.errors import BadInputError, ConflictError, FieldError, NotFoundError
from app.refits import queries as store

RefitState = Literal[
    "queued", "reading", "fitting", "publishing", "done", "failed", "superseded", "needs_review", "cancelled"
]


class Refit(BaseModel):
    """One turn of the loop: who asked for it, how far it is, how it ended."""

    model_config = ConfigDict(frozen=True)

    id: UUID
    state: RefitState = Field(
        description="superseded: another worker took over before it could publish; needs_review: an admin must decide."
    )
    trigger: str = Field(description="schedule, votes (so many new ones that it did not wait), request or command.")
    requested_by: str = Field(description="Name of the API key, or what else asked.")
    accept_exclusions: bool = Field(description="Whether it publishes however many votes are excluded.")
    requested_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    seconds: dict[str, float] = Field(description="Time taken per stage.")
    progress: float = Field(description="Share done, 0 to 1, judged by the time that the last one took.")
    cancel_requested_at: datetime | None
    detail: str | None = Field(description="One line on why it did not publish.")
    snapshot_id: UUID | None = Field(description="The snapshot it published.")
    snapshot_number: int | None

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.finished_at is not None


def request_refit(
    conn: Connection, *, trigger: str, requested_by: str, accept_exclusions: bool = False, reason: str | None = None
) -> UUID:
    """Ask for a refit; one that already waits serves this request too. Returns its id.

    Who accepts exclusions, which the guard would hold back, is put on the audit log, with the reason if there is one.

    Raises
    ------
    BadInputError
        A reason that nothing is done for: it would not be kept.
    """
    if reason is not None and not accept_exclusions:
        error = FieldError("/reason", "is kept for accept_exclusions only, which is not set")
        raise BadInputError(f"{error.pointer} {error.detail}", (error,))
    refit_id = store.queue_refit(conn, trigger=trigger, requested_by=requested_by, accept_exclusions=accept_exclusions)
    if accept_exclusions:
        detail = {} if reason is None else {"reason": reason}
        audit.record(conn, actor=requested_by, action="refit.accept_exclusions", subject=str(refit_id), detail=detail)
    return refit_id


def find_refit(conn: Connection, refit_id: UUID) -> Refit:
    """Return a refit.

    Raises
    ------
    NotFoundError
    """
    row = store.get_refit(conn, refit_id)
    if row is None:
        raise NotFoundError(f"there is no refit {refit_id}")
    return _with_progress(row, store.typical_seconds(conn))


def cancel_refit(conn: Connection, refit_id: UUID) -> Refit:
    """End a refit that waits, or have the worker end it soon; the leaderboard stays as it is.

    A refit that is publishing may be done before it is told.

    Raises
    ------
    NotFoundError
    ConflictError
        It has ended already.
    """
    if not store.ask_to_cancel(conn, refit_id):
        refit = find_refit(conn, refit_id)
        raise ConflictError(f"the refit has ended already, as {refit.state.replace('_', ' ')}")
    return find_refit(conn, refit_id)


def list_refits(conn: Connection, *, limit: int, before: tuple[datetime, UUID] | None = None) -> list[Refit]:
    """Return refits, the newest request first."""
    typical = store.typical_seconds(conn)
    return [_with_progress(row, typical) for row in store.list_refits(conn, limit=limit, before=before)]


def _with_progress(row: RowMapping, typical: float | None) -> Refit:
    """Add how far it is: no stage knows how much of it is left, but a refit takes about as long as the last one."""
    if row["finished_at"] is not None:
        progress = 1.0
    elif row["started_at"] is None or typical is None:
        progress = 0.0
    else:
        progress = min(float(row["running_seconds"]) / max(typical, 0.1), 0.99)
    return Refit.model_validate({**row, "progress": progress})
