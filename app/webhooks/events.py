"""What webhooks are told, written in the transaction of what it tells of: neither is there without the other."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from app.policy.schemas import Policy
from app.snapshots.freshness import first_board_is_late
from app.snapshots.queries import newest_snapshot, snapshot_is_older
from app.snapshots.vote_sets import MOST_COUNTED, count_votes, new_votes_since
from app.webhooks import queries as store
from app.webhooks.service import Event

MAX_LISTED = 1_000
_EVER = datetime(1970, 1, 1, tzinfo=UTC)


def announce(conn: Connection, event: Event, data: Mapping[str, Any]) -> None:
    """Put a message on its way to everyone who wants to be told of this event."""
    subscribers = store.list_subscribers(conn, event)
    if subscribers:
        store.insert_deliveries(conn, subscribers, event, _payload(event, data))


def announce_to(conn: Connection, webhook_id: UUID, data: Mapping[str, Any]) -> UUID:
    """Put a test message on its way to one webhook; return its id."""
    return store.insert_deliveries(conn, [webhook_id], "test", _payload("test", data))[0]


def announce_standings(conn: Connection, snapshot_id: UUID, changes: Iterable[RowMapping]) -> None:
    """Tell which annotators a publication newly flagged and excluded, by public id: keys stay here."""
    found = list(changes)
    told: tuple[tuple[Event, str], ...] = (("annotators.flagged", "flagged"), ("annotators.excluded", "excluded"))
    for event, standing in told:
        here = [one for one in found if one["after"] == standing]
        if here:
            listed = [{"id": str(one["id"]), "ability": one["ability"], "votes": one["votes"]} for one in here]
            data = {"snapshot": str(snapshot_id), "count": len(here), "annotators": listed[:MAX_LISTED]}
            announce(conn, event, data)


def wants_standings(conn: Connection) -> bool:
    """Whether anyone wants to be told of flags or exclusions: finding them costs a look at every annotator."""
    return any(store.list_subscribers(conn, event) for event in ("annotators.flagged", "annotators.excluded"))


def announce_stale_board(conn: Connection, policy: Policy) -> bool:
    """Tell once of a board that is older than the policy wants while votes wait that are not in it.

    Also of a first board that is that late. Return whether it was told.
    """
    snapshot = newest_snapshot(conn)
    if snapshot is None:
        if store.told_since(conn, "board.stale", _EVER) or not first_board_is_late(conn, policy):
            return False
        waiting = count_votes(conn, at_most=MOST_COUNTED)
        announce(conn, "board.stale", {"snapshot": None, "published_at": None, "votes_not_in_board": waiting})
        return True
    if not snapshot_is_older(conn, snapshot["id"], timedelta(seconds=policy.stale_after_seconds)):
        return False
    waiting = new_votes_since(conn, snapshot["vote_set"])
    if not waiting or store.told_since(conn, "board.stale", snapshot["published_at"]):
        return False
    published = snapshot["published_at"].isoformat()
    data = {"snapshot": str(snapshot["id"]), "published_at": published, "votes_not_in_board": waiting}
    announce(conn, "board.stale", data)
    return True


def _payload(event: str, data: Mapping[str, Any]) -> str:
    message = {"type": event, "timestamp": datetime.now(UTC).isoformat(), "data": data}
    return json.dumps(message, ensure_ascii=False)
