from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from app.errors import NotFoundError
from app.store import refits as store

RefitState = Literal["queued", "reading", "fitting", "publishing", "done", "failed", "superseded", "needs_review"]


class Refit(BaseModel):
    """One turn of the loop: who asked for it, how far it is, how it ended."""

    model_config = ConfigDict(frozen=True)

    id: UUID
    state: RefitState = Field(
        description="superseded: another worker took over before it could publish; needs_review: an admin must decide."
    )
    trigger: str = Field(description="schedule, request or command.")
    requested_by: str = Field(description="Name of the API key, or what else asked.")
    accept_exclusions: bool = Field(description="Whether it publishes however many votes are excluded.")
    requested_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    seconds: dict[str, float] = Field(description="Time taken per stage.")
    detail: str | None = Field(description="One line on why it did not publish.")
    snapshot_id: UUID | None = Field(description="The snapshot it published.")
    snapshot_number: int | None

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.finished_at is not None


def request_refit(conn: Connection, *, trigger: str, requested_by: str, accept_exclusions: bool = False) -> UUID:
    """Ask for a refit; one that already waits serves this request too. Returns its id."""
    return store.queue_refit(conn, trigger=trigger, requested_by=requested_by, accept_exclusions=accept_exclusions)


def find_refit(conn: Connection, refit_id: UUID) -> Refit:
    """Return a refit.

    Raises
    ------
    NotFoundError
    """
    row = store.get_refit(conn, refit_id)
    if row is None:
        raise NotFoundError(f"there is no refit {refit_id}")
    return Refit.model_validate(dict(row))


def list_refits(conn: Connection, *, limit: int, before: tuple[datetime, UUID] | None = None) -> list[Refit]:
    """Return refits, the newest request first."""
    return [Refit.model_validate(dict(row)) for row in store.list_refits(conn, limit=limit, before=before)]
