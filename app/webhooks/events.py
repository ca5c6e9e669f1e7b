"""Messages to webhooks. A message is written in the transaction of its event: there is no event without it."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from app.webhooks import queries as store
from app.webhooks.schemas import Event

MAX_LISTED = 1_000
_STANDING_EVENTS: dict[Event, str] = {"annotators.flagged": "flagged", "annotators.excluded": "excluded"}


def announce(conn: Connection, event: Event, data: Mapping[str, Any]) -> None:
    """Send a message about this event to every webhook that subscribed to it."""
    subscribers = store.list_subscribers(conn, event)
    if subscribers:
        store.insert_deliveries(conn, subscribers, event, _payload(event, data))


def announce_to(conn: Connection, webhook_id: UUID, data: Mapping[str, Any]) -> UUID:
    """Send a test message to one webhook; return the message's id."""
    return store.insert_deliveries(conn, [webhook_id], "test", _payload("test", data))[0]


def announce_standings(conn: Connection, snapshot_id: UUID, changes: Sequence[RowMapping]) -> None:
    """Send messages about the annotators that a snapshot newly flags or excludes, by public id without their keys."""
    for event, standing in _STANDING_EVENTS.items():
        changed = [one for one in changes if one["after"] == standing]
        if changed:
            listed = [{"id": str(one["id"]), "ability": one["ability"], "votes": one["votes"]} for one in changed]
            data = {"snapshot": str(snapshot_id), "count": len(changed), "annotators": listed[:MAX_LISTED]}
            announce(conn, event, data)


def wants_standings(conn: Connection) -> bool:
    """Whether a webhook subscribed to flags or exclusions: to find them, every annotator has to be looked at."""
    return any(store.list_subscribers(conn, event) for event in _STANDING_EVENTS)


def _payload(event: str, data: Mapping[str, Any]) -> str:
    message = {"type": event, "timestamp": datetime.now(UTC).isoformat(), "data": data}
    return json.dumps(message, ensure_ascii=False)
