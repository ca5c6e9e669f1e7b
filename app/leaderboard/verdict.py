"""What a leaderboard says of its best model: in a headline, and in one sentence."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.leaderboard.schemas import LeaderboardRow
from app.snapshots.differences import Differences, Word

_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_NAMED = 2  # of the models that cannot be told apart from the leader; of more the first, and how many others


@dataclass(frozen=True)
class LeaderVerdict:
    """Which model leads: `headline` in a few words, `sentence` with the models that are level with it and the votes."""

    headline: str
    sentence: str


def describe_verdict(models: Sequence[LeaderboardRow], votes: int, differences: Differences | None) -> LeaderVerdict:
    """Return which model leads, and which models cannot be told apart from it. Provisional models are left out.

    `models`: one group of a leaderboard.
    `votes`: how many votes count in it.
    `differences`: between the models; None where a snapshot does not have them, and then the classes say it.
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
    if leader.class_rank is None:
        best = f"{leader.model} {'is first' if leader.score is None else 'has the best score'}"
        return LeaderVerdict(best, f"{best} {at}; nothing says how sure that is.")
    words = {row.model: _compare(leader, row, differences) for row in rest}
    level = [model for model, word in words.items() if word not in ("better", "likely-better")]
    likely = [model for model, word in words.items() if word == "likely-better"]
    if level:
        others = level[0] if len(level) == 1 else f"{_number(len(level))} others"
        return LeaderVerdict(
            f"{leader.model} leads, level with {others}",
            f"{leader.model} leads; {_named(level)} cannot be told apart from it {at}.",
        )
    if likely:
        sure = len(rest) - len(likely)
        first = f"better than {_number(sure)} other{'' if sure == 1 else 's'} and likely " if sure else "likely "
        sentence = f"{leader.model} is {first}better than {_named(likely)} {at}."
        return LeaderVerdict(f"{leader.model} likely leads all others", sentence)
    return LeaderVerdict(f"{leader.model} leads all others", f"{leader.model} is better than every other model {at}.")


def _named(models: Sequence[str]) -> str:
    return " and ".join(models) if len(models) <= _NAMED else f"{models[0]} and {_number(len(models) - 1)} others"


def _compare(leader: LeaderboardRow, row: LeaderboardRow, differences: Differences | None) -> Word | None:
    """Compare two models; by their classes where the snapshot does not say more."""
    if differences is not None:
        return differences.between(leader.model, row.model)
    return "level" if row.class_rank == leader.class_rank else "likely-better"


def _number(value: int) -> str:
    return _WORDS[value] if value < len(_WORDS) else f"{value:,}"
