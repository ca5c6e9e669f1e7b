from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import Field, StrictBool

from app.api.texts import Reason
from app.schemas import ClosedModel, FrozenModel

RefitState = Literal[
    "queued", "reading", "fitting", "publishing", "done", "failed", "superseded", "needs_review", "cancelled"
]


class Refit(FrozenModel):
    """One round of the loop: who requested it, its state, and how it ended."""

    id: UUID
    state: RefitState = Field(
        description="superseded: another worker took over before it could publish. needs_review: an admin must decide."
    )
    trigger: str = Field(
        description="schedule, import (one has ended), votes (refit_after_votes new votes came in), request or command."
    )
    requested_by: str = Field(description="Name of the API key, or of the part of the service that requested it.")
    accept_exclusions: bool = Field(description="Whether it publishes however many votes it excludes.")
    requested_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    seconds: dict[str, float] = Field(
        description="Time taken per stage. `compile` is a part of others: kernels that had to be compiled at run time."
    )
    progress: float = Field(description="Share done, 0 to 1, estimated from the time that the last refit took.")
    cancel_requested_at: datetime | None
    detail: str | None = Field(description="Why it did not publish, in one line.")
    snapshot_id: UUID | None = Field(description="The snapshot it published.")
    snapshot_number: int | None

    @property
    def ended(self) -> bool:
        """Whether it has finished, published or not."""
        return self.finished_at is not None


class RefitRequest(ClosedModel):
    """Options of a refit."""

    accept_exclusions: StrictBool = Field(
        False,
        description="Publish even if the refit excludes more votes than the policy allows, or the annotators are in "
        "two opposed camps. The audit log records the name of the key and the reason.",
    )
    reason: Reason | None = Field(
        None,
        description="Why the exclusions are accepted. Do not name a person or a key here: reasons are kept for ever.",
    )
