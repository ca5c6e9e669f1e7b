"""How many votes of people, and of judges, make the people's intervals as narrow as is asked for."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from app.rating.judges.sharpening import Sharpened
from app.rating.verdict.rating import Rating

CURVE = [2.0 ** (step / 2) for step in range(-4, 7)]
"""Multiples of the people's votes at which the curve has a point: a quarter to eight times."""


class WidthPoint(NamedTuple):
    """The median width of an interval at a number of people's votes, Elo points; `sharpened` None beyond judges."""

    people_votes: int
    people: float
    sharpened: float | None


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
    curve : the widths by the number of people's votes
    """

    width: float
    people_width: float | None
    sharpened_width: float | None
    correlation: float | None
    people_alone: int | None
    people_with_judges: int | None
    cheapest: Mixture | None
    curve: list[WidthPoint]


def plan_votes(found: Sharpened, width: float, prices: Prices | None) -> VotePlan:
    """Find the numbers of votes at which half of the models have intervals as narrow as this.

    As `trace_widths` has them.

    Parameters
    ----------
    width : Elo points, above 0
    """
    now, votes = _median_width(found.people), found.votes
    if now is None:
        return VotePlan(width, None, None, None, None, None, None, [])
    alone = votes * (now / width) ** 2
    if found.rating is None:
        cheapest = None if prices is None else _cheapest(alone, 0.0, prices, 0)
        return VotePlan(width, now, None, None, math.ceil(alone), None, cheapest, trace_widths(found))
    explained = _explained(found)
    left, known = alone * (1.0 - explained), alone * explained  # left/n + known/N is to be 1
    free = 1.0 - known / found.judged
    together = min(left / free, alone) if free > 0.0 and left / free < found.judged else alone
    cheapest = None if prices is None else _cheapest(left, known, prices, len(found.judges))
    sharpened, correlation = _median_width(found.rating), math.sqrt(explained)
    return VotePlan(
        width, now, sharpened, correlation, math.ceil(alone), math.ceil(together), cheapest, trace_widths(found)
    )


def trace_widths(found: Sharpened) -> list[WidthPoint]:
    """Return the median width of an interval by the number of people's votes, from a quarter of today's to 8 times.

    With n votes of people the variance of their scores is v/n. With judges on N battles, of which people's are a random
    part, it is v ((1 − ρ²)/n + ρ²/N). Empty where the people's leaderboard has no intervals.
    """
    now, votes = _median_width(found.people), found.votes
    if now is None:
        return []
    part, explained = found.shared / max(found.judged, 1), _explained(found)

    def point(times: float) -> WidthPoint:
        sharpened = now * math.sqrt((1.0 - explained) / times + explained * part)
        helps = found.rating is not None and times * part <= 1.0
        return WidthPoint(round(times * votes), now / math.sqrt(times), sharpened if helps else None)

    return [point(times) for times in CURVE]


def _explained(found: Sharpened) -> float:
    """Return ρ², the share of the variance of people's surprises that judges explain; 0 where they are not used."""
    part = found.shared / max(found.judged, 1)
    return 0.0 if found.rating is None or part >= 1.0 else (1.0 - found.votes / found.worth) / (1.0 - part)


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
