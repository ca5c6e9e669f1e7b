import base64
import secrets
from uuid import UUID

from sqlalchemy import Connection

from app.audit import service as audit
from app.errors import NotFoundError
from app.webhooks import queries as store
from app.webhooks.addresses import check_url
from app.webhooks.schemas import Delivery, Event, NewWebhook, Webhook


def create_webhook(
    conn: Connection, url: str, events: list[Event], *, created_by: str, allow_private: bool
) -> NewWebhook:
    """Send messages about these events to this URL from now on.

    Raises BadInputError or ForbiddenAddressError: messages cannot, or must not, be delivered to the URL.
    """
    check_url(url, allow_private=allow_private)
    secret = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
    values = {"url": url, "events": sorted(set(events)), "secret": secret, "created_by": created_by}
    row = store.insert_webhook(conn, values)
    detail = {"url": url, "events": row["events"]}
    audit.record(conn, actor=created_by, action="webhook.create", subject=str(row["id"]), detail=detail)
    return NewWebhook(**row, secret=secret)


def list_webhooks(conn: Connection) -> list[Webhook]:
    """Return every webhook, the oldest first, without its secret."""
    return [Webhook.model_validate(dict(row)) for row in store.list_webhooks(conn)]


def delete_webhook(conn: Connection, webhook_id: UUID, *, deleted_by: str) -> None:
    """Send a webhook no more messages, not even those that wait. Raises NotFoundError."""
    if not store.delete_webhook(conn, webhook_id):
        raise NotFoundError("there is no such webhook")
    audit.record(conn, actor=deleted_by, action="webhook.delete", subject=str(webhook_id), detail={})


def find_webhook(conn: Connection, webhook_id: UUID) -> Webhook:
    """Return a webhook without its secret. Raises NotFoundError."""
    row = store.get_webhook(conn, webhook_id)
    if row is None:
        raise NotFoundError("there is no such webhook")
    return Webhook.model_validate(dict(row))


def pause_webhook(conn: Connection, webhook_id: UUID, *, paused: bool, changed_by: str) -> Webhook:
    """Let a webhook's messages wait, or send them again: those that waited first. Twice is as good as once.

    Raises NotFoundError.
    """
    find_webhook(conn, webhook_id)
    if store.set_paused(conn, webhook_id, paused=paused):
        action = "webhook.pause" if paused else "webhook.resume"
        audit.record(conn, actor=changed_by, action=action, subject=str(webhook_id), detail={})
    return find_webhook(conn, webhook_id)


def list_deliveries(conn: Connection, webhook_id: UUID, *, limit: int, before: UUID | None = None) -> list[Delivery]:
    """Return a webhook's messages, the newest first. Raises NotFoundError."""
    find_webhook(conn, webhook_id)
    rows = store.list_deliveries(conn, webhook_id, limit=limit, before=before)
    return [Delivery.model_validate(dict(row)) for row in rows]
