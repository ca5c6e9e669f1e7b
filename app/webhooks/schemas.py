from datetime import datetime
from typing import Literal, get_args
from uuid import UUID

from pydantic import BaseModel, Field

from app.schemas import ClosedModel, FrozenModel

Event = Literal[
    "snapshot.published",
    "annotators.flagged",
    "annotators.excluded",
    "annotator.decided",
    "appeal.submitted",
    "refit.failed",
    "board.stale",
    "rule.jumped",
    "model.merged",
    "model.changed",
]
EVENTS: tuple[Event, ...] = get_args(Event)


class WebhookRequest(ClosedModel):
    """A URL that is to receive messages, and about which events."""

    url: str = Field(min_length=1, max_length=2000, description="https, on a public address.")
    events: list[Event] = Field(min_length=1)


class Webhook(FrozenModel):
    """A URL that receives messages, and about which events."""

    id: UUID
    url: str
    events: list[str]
    created_by: str = Field(description="Name of the key it was made with.")
    created_at: datetime
    paused_at: datetime | None = Field(description="Since when its messages wait; null while they are sent.")


class NewWebhook(Webhook):
    """A webhook just made, with the secret that signs its messages. The secret is shown once."""

    secret: str = Field(description="whsec_…, as Standard Webhooks defines it.")


class TestMessage(BaseModel):
    """A test message on its way."""

    id: UUID = Field(description="As in the webhook's deliveries.")


class Delivery(FrozenModel):
    """One message to a webhook, and the result of the attempts to deliver it."""

    id: UUID
    event: str
    created_at: datetime
    attempts: int
    status: Literal["waiting", "delivered", "given_up"]
    detail: str | None = Field(description="Result of the last attempt.")
    next_attempt_at: datetime | None = Field(description="null once it was delivered or given up.")
    ended_at: datetime | None
