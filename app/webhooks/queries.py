"""Webhooks and their messages: written in the transaction of the event, sent afterwards."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Connection,
    Interval,
    RowMapping,
    case,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)

from app.database.ids import new_id
from app.database.notices import notify
from app.database.tables import webhook_deliveries, webhooks

RECEIVER = func.lower(func.substring(webhooks.c.url, "//([^/?]*)")).label("receiver")
"""The host and port that a webhook's messages go to. The rest of the URL may have a secret in it."""

FIRST_PAUSE_SECONDS = 5.0  # then four times as long each time, at most a day: about three days in all
LONGEST_PAUSE_SECONDS = 86_400.0
MOST_STRETCHED = 1.1  # by chance, so that not all receivers are tried again at once
_LONGEST_CLAIM_SECONDS = 60.0

_PUBLIC = [webhooks.c[name] for name in ("id", "url", "events", "created_by", "created_at", "paused_at")]


def insert_webhook(conn: Connection, values: dict[str, Any]) -> RowMapping:
    """Add a webhook and return it without its secret."""
    return conn.execute(insert(webhooks).values(id=new_id(), **values).returning(*_PUBLIC)).mappings().one()


def list_webhooks(conn: Connection) -> Sequence[RowMapping]:
    """Return the webhooks that are not deleted, the oldest first."""
    statement = select(*_PUBLIC).where(webhooks.c.deleted_at.is_(None))
    return conn.execute(statement.order_by(webhooks.c.created_at, webhooks.c.id)).mappings().all()


def get_webhook(conn: Connection, webhook_id: UUID) -> RowMapping | None:
    """Return one webhook as `list_webhooks` does, None where there is none."""
    statement = select(*_PUBLIC).where(webhooks.c.id == webhook_id, webhooks.c.deleted_at.is_(None))
    return conn.execute(statement).mappings().one_or_none()


def delete_webhook(conn: Connection, webhook_id: UUID) -> bool:
    """Delete a webhook and give up its waiting messages; False where there is no such webhook."""
    found = webhooks.c.id == webhook_id
    gone = update(webhooks).where(found, webhooks.c.deleted_at.is_(None)).values(deleted_at=func.now(), secret="")
    if not conn.execute(gone).rowcount:
        return False
    waiting = (webhook_deliveries.c.webhook_id == webhook_id) & (webhook_deliveries.c.status == "waiting")
    ended = {"status": "given_up", "ended_at": func.now(), "detail": "the webhook was deleted"}
    conn.execute(update(webhook_deliveries).where(waiting).values(ended))
    return True


def set_paused(conn: Connection, webhook_id: UUID, *, paused: bool) -> bool:
    """Let a webhook's messages wait, or no longer; False where it is so already."""
    c = webhooks.c
    notify(conn, "webhooks")
    statement = update(webhooks).where(c.id == webhook_id, c.paused_at.is_(None) == literal(paused))
    return conn.execute(statement.values(paused_at=func.now() if paused else None)).rowcount > 0


def list_subscribers(conn: Connection, event: str) -> Sequence[UUID]:
    """Return the ids of the webhooks that subscribed to an event."""
    wants = literal(event) == webhooks.c.events.any_()
    return conn.execute(select(webhooks.c.id).where(wants, webhooks.c.deleted_at.is_(None))).scalars().all()


def was_announced(conn: Connection, event: str, *, since: datetime) -> bool:
    """Whether a message about this event was written after a time."""
    written = exists().where(webhook_deliveries.c.event == event, webhook_deliveries.c.created_at > since)
    return bool(conn.execute(select(written)).scalar_one())


def insert_deliveries(conn: Connection, webhook_ids: Collection[UUID], event: str, payload: str) -> list[UUID]:
    """Add a message to each webhook; return the messages' ids."""
    ids = [new_id() for _ in webhook_ids]
    rows = [
        {"id": i, "webhook_id": one, "event": event, "payload": payload}
        for i, one in zip(ids, webhook_ids, strict=True)
    ]
    if rows:
        conn.execute(insert(webhook_deliveries), rows)
        notify(conn, "webhooks")
    return ids


def claim_due(conn: Connection, *, seconds: float, except_receivers: Collection[str] = ()) -> RowMapping | None:
    """Take the message that is due first, with its webhook's `url`, `receiver` and `secret`.

    No other process takes it for `seconds`. A message whose time is further away than it was made to wait is due too:
    the clock was ahead.
    """
    c = webhook_deliveries.c
    now = func.clock_timestamp()
    pause = func.least(FIRST_PAUSE_SECONDS * func.power(4.0, c.attempts - 1), LONGEST_PAUSE_SECONDS)
    longest = func.make_interval(0, 0, 0, 0, 0, 0, func.greatest(MOST_STRETCHED * pause, _LONGEST_CLAIM_SECONDS))
    due = (
        select(c.id)
        .join(webhooks, webhooks.c.id == c.webhook_id)
        .where(c.status == "waiting", webhooks.c.paused_at.is_(None))
        .where(or_(c.next_attempt_at <= now, c.next_attempt_at > now + longest))
        .where(RECEIVER.not_in(except_receivers))
        .order_by(c.next_attempt_at)
        .limit(1)
        .with_for_update(skip_locked=True, of=webhook_deliveries)
    )
    later = func.clock_timestamp() + literal(timedelta(seconds=seconds), Interval)
    statement = (
        update(webhook_deliveries)
        .where(c.id == due.scalar_subquery(), webhooks.c.id == c.webhook_id)
        .values(next_attempt_at=later, attempts=c.attempts + 1)
        .returning(c.id, c.event, c.payload, c.attempts, webhooks.c.url, RECEIVER, webhooks.c.secret)
    )
    return conn.execute(statement).mappings().one_or_none()


def seconds_to_next_attempt(conn: Connection) -> float | None:
    """Return when the next message is due, in seconds from now; None if none waits."""
    c = webhook_deliveries.c
    left = func.extract("epoch", func.min(c.next_attempt_at) - func.clock_timestamp())
    waiting = select(left).join(webhooks, webhooks.c.id == c.webhook_id)
    seconds = conn.execute(waiting.where(c.status == "waiting", webhooks.c.paused_at.is_(None))).scalar_one_or_none()
    return None if seconds is None else float(seconds)


def record_delivered(conn: Connection, delivery_id: UUID, detail: str) -> None:
    """Record that a waiting message was delivered, by whichever attempt."""
    _update(conn, delivery_id, status="delivered", detail=detail, ended_at=func.clock_timestamp())


def give_up_delivery(conn: Connection, delivery_id: UUID, attempt: int, detail: str) -> bool:
    """Give a waiting message up; False if this was not its last attempt: another process has claimed it since."""
    ended = {"status": "given_up", "detail": detail, "ended_at": func.clock_timestamp()}
    return _update(conn, delivery_id, webhook_deliveries.c.attempts == attempt, **ended)


def postpone_delivery(conn: Connection, delivery_id: UUID, attempt: int, seconds: float, detail: str) -> None:
    """Try a waiting message again later, unless another process has claimed it since this attempt."""
    later = func.clock_timestamp() + literal(timedelta(seconds=seconds), Interval)
    _update(conn, delivery_id, webhook_deliveries.c.attempts == attempt, next_attempt_at=later, detail=detail)


def list_deliveries(conn: Connection, webhook_id: UUID, *, limit: int, before: UUID | None) -> Sequence[RowMapping]:
    """Return a webhook's messages, the newest first, those with an id below `before`: ids grow with time."""
    c = webhook_deliveries.c
    next_attempt = case((c.status == "waiting", c.next_attempt_at)).label("next_attempt_at")
    columns = (c.id, c.event, c.created_at, c.attempts, c.status, c.detail, next_attempt, c.ended_at)
    statement = select(*columns).where(c.webhook_id == webhook_id).order_by(c.id.desc()).limit(limit)
    if before is not None:
        statement = statement.where(c.id < before)
    return conn.execute(statement).mappings().all()


def _update(conn: Connection, delivery_id: UUID, *conditions: ColumnElement[bool], **values: object) -> bool:
    waiting = (webhook_deliveries.c.id == delivery_id) & (webhook_deliveries.c.status == "waiting")
    return conn.execute(update(webhook_deliveries).where(waiting, *conditions).values(values)).rowcount == 1
