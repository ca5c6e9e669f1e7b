"""The two units of counts: votes, of which a ranking is one, and pairs, of which a ranking of n models has n(n−1)/2.

Scores are fitted to pairs. So `votes_read` and `votes_used` of a snapshot count pairs, as the votes of its models do;
`diagnostics.rankings` has the same in votes, and is null where no vote is a ranking. Annotators have votes.
"""

from collections.abc import Mapping
from typing import Any

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


LEFT_OUT = {
    "pending": "of annotators with too few votes so far",
    "excluded": "of excluded annotators",
    "of_others": "of annotators of the other kind, people or judges, who have a leaderboard of their own",
    "retracted": "retracted",
    "unsealed": "not cast by a battle's token, as the policy wants it",
    "over_quota": "beyond the daily number of votes that count of one annotator",
    "same_model": "between two names of one model",
}
_LIGHTER = {
    "pushed": "they seem to push a model, or to bury it",
    "many": "their annotator has far more votes on a model than its other judges",
}


def account_votes(diagnostics: Mapping[str, Any]) -> list[tuple[int, str]]:
    """Return how the votes on record count, and how many do so, which adds up; empty for the earliest snapshots.

    In pairs where some votes are rankings.
    """
    votes, weights = diagnostics.get("votes"), diagnostics.get("weights")
    if not votes:
        return []
    lighter = [
        (round(weights[name]), f"count as {count(weights[f'{name}_worth'])}: {why}")
        for name, why in _LIGHTER.items()
        if weights and round(weights[name])
    ]
    full = votes["used"] - sum(number for number, _ in lighter)
    counted = [(full, "count in full" if weights else "count"), *lighter]
    left_out = [(votes[name], f"do not count: {why}") for name, why in LEFT_OUT.items() if votes.get(name)]
    return [*counted, *left_out]
