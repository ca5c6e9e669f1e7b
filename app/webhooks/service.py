from datetime import datetime
from typing import Literal, get_args
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from app.audit import service as audit
from app.errors import NotFoundError
from app.webhooks import queries as store
from app.webhooks.addresses import check_url
from app.webhooks.signing import new_secret

Event = Literal[
    "snapshot.published", "annotators.flagged", "annotators.excluded", "refit.failed", "board.stale", "rule.jumped"
]
EVENTS: tuple[Event, ...] = get_args(Event)


class Webhook(BaseModel):
    """Who is told of what."""

    model_config = ConfigDict(frozen=True)

    id: UUID
    url: str
    events: list[str]
    created_by: str = Field(description="Name of the key it was made with.")
    created_at: datetime


class NewWebhook(Webhook):
    """A webhook just made, with the secret that its messages are signed with; it is shown once."""

    secret: str = Field(description="whsec_…, as Standard Webhooks defines it.")


class Delivery(BaseModel):
    """One message to a webhook and how it went."""

    model_config = ConfigDict(frozen=True)

    id: UUID
    event: str
    created_at: datetime
    attempts: int
    status: Literal["waiting", "delivered", "given_up"]
    detail: str | None = Field(description="How the last attempt went.")
    next_attempt_at: datetime | None = Field(description="null once it was delivered or given up.")
    ended_at: datetime | None


def create_webhook(
    conn: Connection, url: str, events: list[Event], *, created_by: str, allow_private: bool
) -> NewWebhook:
    """Tell this URL of these events from now on.

    Raises
    ------
    BadInputError, ForbiddenAddressError
        The URL cannot, or must not, be delivered to.
    """
    check_url(url, allow_private=allow_private)
    secret = new_secret()
    values = {"url": url, "events": sorted(set(events)), "secret": secret, "created_by": created_by}
    row = store.insert_webhook(conn, values)
    detail = {"url": url, "events": row["events"]}
    audit.record(conn, actor=created_by, action="webhook.create", subject=str(row["id"]), detail=detail)
    return NewWebhook(**row, secret=secret)


def list_webhooks(conn: Connection) -> list[Webhook]:
    """Return every webhook, the oldest first, without its secret."""
    return [Webhook.model_validate(dict(row)) for row in store.list_webhooks(conn)]


def delete_webhook(conn: Connection, webhook_id: UUID, *, deleted_by: str) -> None:
    """Tell a webhook nothing more, not even what waits for it.

    Raises
    ------
    NotFoundError
    """
    if not store.delete_webhook(conn, webhook_id):
        raise NotFoundError("there is no such webhook")
    audit.record(conn, actor=deleted_by, action="webhook.delete", subject=str(webhook_id), detail={})


def list_deliveries(conn: Connection, webhook_id: UUID, *, limit: int, before: UUID | None = None) -> list[Delivery]:
    """Return a webhook's messages, the newest first.

    Raises
    ------
    NotFoundError
    """
    if store.get_webhook(conn, webhook_id) is None:
        raise NotFoundError("there is no such webhook")
    rows = store.list_deliveries(conn, webhook_id, limit=limit, before=before)
    return [Delivery.model_validate(dict(row)) for row in rows]
