"""The two units of counts: votes, of which a ranking is one, and pairs, of which a ranking of n models has n(n−1)/2.

Scores are fitted to pairs. So `votes_read` and `votes_used` of a snapshot count pairs, as the votes of its models do;
`diagnostics.rankings` has the same in votes, and is null where no vote is a ranking. Annotators have votes.
"""

from collections.abc import Mapping

from sqlalchemy import ColumnElement, RowMapping, func

from app.database.tables import snapshots
from app.wording import count, plural

VOTES_READ: ColumnElement[int] = func.coalesce(
    snapshots.c.diagnostics[("rankings", "votes_read")].as_integer(), snapshots.c.votes_read
)
"""The votes that a snapshot read: what shares of annotators' votes are of."""


def whole_votes_read(snapshot: RowMapping) -> int:
    """Return `VOTES_READ` of a snapshot that has been read."""
    return int((snapshot["diagnostics"].get("rankings") or snapshot)["votes_read"])


def describe_counted(used: int, read: int, rankings: Mapping[str, int] | None) -> str:
    """Say in a sentence how many votes count, and pairs where some of them are rankings."""
    if not rankings:
        return f"{count(used)} of {plural(read, 'vote')} on record {'counts' if used == 1 else 'count'}"
    votes = f"{count(rankings['votes_used'])} of {plural(rankings['votes_read'], 'vote')} on record"
    pairs = f"{count(used)} of {plural(read, 'pair')}"
    return f"{votes} count, as {pairs} (a ranking of n models is one vote and n(n−1)/2 pairs)"
