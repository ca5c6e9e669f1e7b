"""The message that a leaderboard is old while votes wait."""

from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection

from app.database.engine import database_time
from app.policy.schemas import Policy
from app.snapshots.freshness import first_leaderboard_is_late
from app.snapshots.queries import newest_snapshot
from app.snapshots.vote_sets import MOST_COUNTED, count_votes, new_votes_since
from app.webhooks.events import announce
from app.webhooks.queries import was_announced

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def announce_stale_leaderboard(conn: Connection, policy: Policy) -> bool:
    """Send one message when the leaderboard is older than the policy allows while votes wait that are not in it.

    A first leaderboard that is as late counts too. Return whether a message was sent.
    """
    snapshot = newest_snapshot(conn)
    if snapshot is None:
        named: dict[str, str | None] = {"snapshot": None, "published_at": None}
        since = _EPOCH
        late = not was_announced(conn, "board.stale", since=since) and first_leaderboard_is_late(conn, policy)
        waiting = count_votes(conn, at_most=MOST_COUNTED) if late else 0
    else:
        since = snapshot["published_at"]
        named = {"snapshot": str(snapshot["id"]), "published_at": since.isoformat()}
        late = database_time(conn) - since > timedelta(seconds=policy.stale_after_seconds)
        waiting = new_votes_since(conn, snapshot["vote_set"]) if late else 0
    if not waiting or was_announced(conn, "board.stale", since=since):
        return False
    announce(conn, "board.stale", {**named, "votes_not_in_board": waiting})
    return True
