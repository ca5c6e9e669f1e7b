from dataclasses import dataclass
from typing import Any, TypedDict

from app.rating.decision.confidence import MOST_RANKS, Confidence
from app.rating.decision.verdict import Verdict
from app.rating.estimators.tables import make_table


class ConfidenceRow(TypedDict):
    """One model: the probability that it is the best, and that it is among the best k."""

    model: str
    p_best: float
    p_top_k: float


@dataclass(frozen=True)
class Decided:
    """Whether the votes are enough to know the best k models.

    Attributes
    ----------
    verdict : "decided"; "equal": where that is not certain, the models are within the margin; "not-yet"
    models : table of the models, best first, with their probabilities
    more_votes : the 10 %, 50 % and 90 % points of the forecast of votes until the verdict is final; 0 when it is, ∞
        beyond 50 times the votes so far
    """

    verdict: Verdict
    models: Any
    more_votes: tuple[float, float, float]


def say_decided(known: Confidence, k: int, names: list[Any], kind: Any) -> Decided:
    """Return the verdict on the best k, with tables of this kind.

    Raises
    ------
    ValueError
        k is not below the number of models with a score, or above 50.
    """
    if k > MOST_RANKS:
        raise ValueError(f"k must be at most {MOST_RANKS}")
    found = known.decide(k)
    rows = [
        ConfidenceRow(model=names[i], p_best=within[0], p_top_k=within[k - 1])
        for i, within in zip(known.joint.models.tolist(), known.within.tolist(), strict=True)
    ]
    low, median, high = known.forecasts[k - 1].tolist() if found.verdict == "not-yet" else (0.0, 0.0, 0.0)
    return Decided(found.verdict, make_table(rows, ConfidenceRow, kind), (low, median, high))
