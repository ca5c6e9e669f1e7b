"""How many votes of people, and of judges, make the people's intervals as narrow as is asked for."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from app.rating.judges.sharpening import Sharpened
from app.rating.verdict.rating import Rating


class Prices(NamedTuple):
    """What a vote of a person costs, and one of a judge; both above 0."""

    people: float
    judge: float


@dataclass(frozen=True)
class Mixture:
    """Votes of people, battles that every judge votes on, how many votes of judges these are, and what all cost."""

    people_votes: int
    judged_battles: int
    judge_votes: int
    cost: float


@dataclass(frozen=True)
class VotePlan:
    """What a width takes. The votes that are there count among those that it takes.

    Attributes
    ----------
    width : Elo points from the lower end of an interval to the upper, median of the models
    people_width, sharpened_width : now, of the people's leaderboard and of people and judges; None without one
    correlation : of people's surprises with what judges make of them; None where judges are not used
    people_alone : votes of people; None where the leaderboard has no intervals
    people_with_judges : beside the battles that judges have seen; None where judges are not used
    cheapest : by the prices; None without them
    """

    width: float
    people_width: float | None
    sharpened_width: float | None
    correlation: float | None
    people_alone: int | None
    people_with_judges: int | None
    cheapest: Mixture | None


def plan_votes(found: Sharpened, width: float, prices: Prices | None) -> VotePlan:
    """Find the numbers of votes at which half of the models have intervals as narrow as this.

    With n votes of people the variance of their scores is v/n. With judges on N battles, of which people's are a random
    part, it is v ((1 − ρ²)/n + ρ²/N).

    Parameters
    ----------
    width : Elo points, above 0
    """
    now, votes = _median_width(found.people), found.votes
    if now is None:
        return VotePlan(width, None, None, None, None, None, None)
    alone = votes * (now / width) ** 2
    if found.rating is None:
        cheapest = None if prices is None else _cheapest(alone, 0.0, prices, 0)
        return VotePlan(width, now, None, None, math.ceil(alone), None, cheapest)
    part = found.shared / found.judged
    explained = (1.0 - votes / found.worth) / (1.0 - part) if part < 1.0 else 0.0
    left, known = alone * (1.0 - explained), alone * explained  # left/n + known/N is to be 1
    free = 1.0 - known / found.judged
    together = min(left / free, alone) if free > 0.0 and left / free < found.judged else alone
    cheapest = None if prices is None else _cheapest(left, known, prices, len(found.judges))
    sharpened, correlation = _median_width(found.rating), math.sqrt(explained)
    return VotePlan(width, now, sharpened, correlation, math.ceil(alone), math.ceil(together), cheapest)


def _cheapest(left: float, known: float, prices: Prices, judges: int) -> Mixture:
    """Minimise the cost of n votes of people and N battles of all judges, left/n + known/N = 1, n ≤ N; or n alone."""
    alone = Mixture(math.ceil(left + known), 0, 0, prices.people * math.ceil(left + known))
    if known <= 0.0:
        return alone
    ratio = prices.judge * judges / prices.people
    n, N = math.ceil(left + math.sqrt(left * known * ratio)), math.ceil(known + math.sqrt(left * known / ratio))
    mixed = Mixture(n, N, N * judges, prices.people * n + prices.judge * judges * N)
    return mixed if n <= N and mixed.cost < alone.cost else alone


def _median_width(rating: Rating) -> float | None:
    widths = (rating.models.upper - rating.models.lower)[rating.identified]
    return float(np.median(widths)) if len(widths) and np.isfinite(widths).all() else None
