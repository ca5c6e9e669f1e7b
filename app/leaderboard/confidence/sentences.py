"""The verdict on a leaderboard in words."""

from collections.abc import Sequence

from app.leaderboard.confidence.schemas import MoreVotes
from app.rating.errors import counted
from app.rating.verdict.confidence import Confidence
from app.rating.verdict.order import Decision

_NAMED = 5  # leaders that a sentence names


def describe_decision(decision: Decision, known: Confidence, leaders: Sequence[str], more: MoreVotes | None) -> str:
    """Return the verdict as one or two sentences."""
    which = "which model is the best" if decision.k == 1 else f"which are the best {decision.k} models"
    open_pairs = counted(int(decision.open.sum()), "pair")
    match decision.verdict:
        case "decided":
            return _decided(leaders, f"with {100 * known.rule.confidence:g} % confidence")
        case "equal":
            return (
                f"It is not worth more votes to decide {which}: {open_pairs} of models may be in either order, "
                f"but all of them are within {known.rule.margin:g} Elo points."
            )
        case "not-yet" if decision.unscored_may_lead:
            unscored = counted(known.unscored.number, "model")
            return f"It is not decided {which}: {unscored} without a score may belong there."
        case _:
            return f"It is not decided {which}: {open_pairs} of models may be in either order. {_ahead(more)}"


def _decided(leaders: Sequence[str], confidence: str) -> str:
    if len(leaders) == 1:
        return f"{leaders[0]} is the best model, {confidence}."
    if len(leaders) > _NAMED:
        return f"The best {len(leaders)} models are decided, {confidence}."
    return f"The best {len(leaders)} models are {', '.join(leaders[:-1])} and {leaders[-1]}, {confidence}."


def _ahead(more: MoreVotes | None) -> str:
    if more is None or more.median is None:
        return "More than 50 times the votes so far may be needed."
    upper = "far more" if more.high is None else f"{more.high:,}"
    return f"About {more.median:,} more votes would settle it (from {more.low:,} to {upper})."
