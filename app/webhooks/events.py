"""Messages to webhooks. A message is written in the transaction of its event: there is no event without it."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from app.policy.schemas import Policy
from app.snapshots.freshness import first_leaderboard_is_late
from app.snapshots.queries import newest_snapshot, snapshot_is_older
from app.snapshots.vote_sets import MOST_COUNTED, count_votes, new_votes_since
from app.webhooks import queries as store
from app.webhooks.schemas import Event

MAX_LISTED = 1_000
_STANDING_EVENTS: dict[Event, str] = {"annotators.flagged": "flagged", "annotators.excluded": "excluded"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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


def announce_stale_leaderboard(conn: Connection, policy: Policy) -> bool:
    """Send one message when the leaderboard is older than the policy allows while votes wait that are not in it.

    A first leaderboard that is as late counts too. Return whether a message was sent.
    """
    snapshot = newest_snapshot(conn)
    if snapshot is None:
        if store.was_announced(conn, "board.stale", since=_EPOCH) or not first_leaderboard_is_late(conn, policy):
            return False
        waiting = count_votes(conn, at_most=MOST_COUNTED)
        announce(conn, "board.stale", {"snapshot": None, "published_at": None, "votes_not_in_board": waiting})
        return True
    if not snapshot_is_older(conn, snapshot["id"], timedelta(seconds=policy.stale_after_seconds)):
        return False
    waiting = new_votes_since(conn, snapshot["vote_set"])
    if not waiting or store.was_announced(conn, "board.stale", since=snapshot["published_at"]):
        return False
    published = snapshot["published_at"].isoformat()
    data = {"snapshot": str(snapshot["id"]), "published_at": published, "votes_not_in_board": waiting}
    announce(conn, "board.stale", data)
    return True


def _payload(event: str, data: Mapping[str, Any]) -> str:
    message = {"type": event, "timestamp": datetime.now(UTC).isoformat(), "data": data}
    return json.dumps(message, ensure_ascii=False)
