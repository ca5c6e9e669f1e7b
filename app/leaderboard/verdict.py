"""What a leaderboard says of its best model: in a headline, and in one sentence."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.leaderboard.schemas import LeaderboardRow

_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_NAMED = 2  # of the models that cannot be told apart from the leader; of more the first, and how many others


@dataclass(frozen=True)
class LeaderVerdict:
    """Which model leads: `headline` in a few words, `sentence` with the models that are level with it and the votes."""

    headline: str
    sentence: str


def describe_verdict(models: Sequence[LeaderboardRow], votes: int) -> LeaderVerdict:
    """Return which model leads, and which models cannot be told apart from it. Provisional models are left out.

    These are the leader's class: the models whose difference to it may be 0; without classes, those whose interval
    reaches the leader's.

    `models`: one group of a leaderboard.
    `votes`: how many votes count in it.
    """
    ranked = [row for row in models if row.rank is not None]
    at = f"at {'this one vote' if votes == 1 else f'these {votes:,} votes'}"
    if not ranked:
        few = any(row.provisional for row in models)
        none = "No model has enough votes for a rank" if few else "No model has a score"
        return LeaderVerdict(none, f"{none} {at}.")
    leader, *rest = sorted(ranked, key=lambda row: (row.rank or 0, row.model))
    if not rest:
        only = f"{leader.model} is the only model with a rank"
        return LeaderVerdict(only, f"{only} {at}.")
    if leader.class_rank is None and leader.lower is None:
        best = f"{leader.model} {'is first' if leader.score is None else 'has the best score'}"
        return LeaderVerdict(best, f"{best} {at}; without intervals nothing says how sure that is.")
    rivals = [row.model for row in rest if _level(row, leader)]
    if not rivals:
        leads = f"{leader.model} leads all others"
        return LeaderVerdict(leads, f"{leader.model} leads; every other model can be told apart from it {at}.")
    level = rivals[0] if len(rivals) == 1 else f"{_number(len(rivals))} others"
    return LeaderVerdict(
        f"{leader.model} leads, level with {level}",
        f"{leader.model} leads; {_named(rivals)} cannot be told apart from it {at}.",
    )


def _named(models: Sequence[str]) -> str:
    return " and ".join(models) if len(models) <= _NAMED else f"{models[0]} and {_number(len(models) - 1)} others"


def _level(row: LeaderboardRow, leader: LeaderboardRow) -> bool:
    if leader.class_rank is not None:
        return row.class_rank == leader.class_rank
    return row.upper is None or leader.lower is None or row.upper >= leader.lower


def _number(value: int) -> str:
    return _WORDS[value] if value < len(_WORDS) else f"{value:,}"
