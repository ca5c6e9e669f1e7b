"""What a leaderboard says, in one sentence."""

from collections.abc import Sequence

from app.leaderboard.schemas import LeaderboardRow

_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_NAMED = 2  # of the models that cannot be told apart from the leader; of more the first, and how many others


def describe_verdict(models: Sequence[LeaderboardRow], votes: int) -> str:
    """Return which model leads, and which models cannot be told apart from it. Provisional models are left out.

    These are the models whose upper bound reaches the leader's lower bound: the leader's class. Only the component with
    the most votes is described.

    Parameters
    ----------
    models : a whole leaderboard, best first within each component
    votes : how many votes count in it
    """
    main = min((row.component for row in models if row.score is not None), default=None)
    scored = [row for row in models if row.component == main and row.score is not None and row.rank is not None]
    at = f"at {'this one vote' if votes == 1 else f'these {votes:,} votes'}"
    if not scored:
        few = any(row.provisional for row in models)
        return f"No model has enough votes for a rank {at}." if few else f"No model has a score {at}."
    apart = "Votes do not link all models; in the largest group, " if len({row.component for row in models}) > 1 else ""
    leader, *rest = sorted(scored, key=lambda row: (row.rank or 0, row.model))
    if not rest:
        return f"{apart}{leader.model} is the only model with a score {at}."
    if leader.lower is None:
        return f"{apart}{leader.model} has the best score {at}; without intervals nothing says how sure that is."
    rivals = [row.model for row in rest if row.upper is None or row.upper >= leader.lower]
    if not rivals:
        return f"{apart}{leader.model} leads; every other model can be told apart from it {at}."
    return f"{apart}{leader.model} leads; {_named(rivals)} cannot be told apart from it {at}."


def _named(models: Sequence[str]) -> str:
    if len(models) <= _NAMED:
        return " and ".join(models)
    others = len(models) - 1
    return f"{models[0]} and {_WORDS[others] if others < len(_WORDS) else f'{others:,}'} others"
