"""The message that a leaderboard is old while votes wait."""

from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection

from app.policy.schemas import Policy
from app.snapshots.freshness import first_leaderboard_is_late
from app.snapshots.queries import newest_snapshot, snapshot_is_older
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
        if was_announced(conn, "board.stale", since=_EPOCH) or not first_leaderboard_is_late(conn, policy):
            return False
        waiting = count_votes(conn, at_most=MOST_COUNTED)
        announce(conn, "board.stale", {"snapshot": None, "published_at": None, "votes_not_in_board": waiting})
        return True
    if not snapshot_is_older(conn, snapshot["id"], timedelta(seconds=policy.stale_after_seconds)):
        return False
    waiting = new_votes_since(conn, snapshot["vote_set"])
    if not waiting or was_announced(conn, "board.stale", since=snapshot["published_at"]):
        return False
    published = snapshot["published_at"].isoformat()
    data = {"snapshot": str(snapshot["id"]), "published_at": published, "votes_not_in_board": waiting}
    announce(conn, "board.stale", data)
    return True
