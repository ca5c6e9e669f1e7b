"""Bars of annotators by ability, or by their number of votes, with the policy's threshold drawn in."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from app.leaderboard.chart_specs import STANDINGS
from app.pages.charts import nice_ticks

WIDTH, HEIGHT = 560.0, 240.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 12.0, 26.0, 30.0

Bins = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Bar:
    """The annotators of one standing in one bin."""

    x: float
    y: float
    width: float
    height: float
    standing: str


@dataclass(frozen=True)
class Bars:
    """Shapes in a box of `WIDTH` × `HEIGHT`.

    Attributes
    ----------
    across, up : where the marks of the two axes are, and their numbers
    line : where the threshold stands
    """

    bars: list[Bar]
    across: list[tuple[float, float]]
    up: list[tuple[float, float]]
    line: float
    left: float = _LEFT
    right: float = WIDTH - _RIGHT
    top: float = _TOP
    bottom: float = HEIGHT - _BOTTOM
    width: float = WIDTH
    height: float = HEIGHT


def draw_abilities(bins: Bins, min_ability: float) -> Bars:
    """Draw annotators by ability; bins as `count_abilities` returns them."""
    low = min([-1.0, min_ability, *(float(one["low"]) for one in bins)])
    high = max([2.0, min_ability, *(float(one["high"]) for one in bins)])
    ticks = [tick for tick in nice_ticks(low, high) if low <= tick <= high]
    return _draw(bins, low, high, ticks, min_ability, float)


def draw_votes(bins: Bins, min_votes: int) -> Bars:
    """Draw annotators by their number of votes, each bin twice as wide as the one before."""
    high = max([2.0 * max(min_votes, 1), 128.0, *(float(one["high"]) for one in bins)])
    ticks = [10.0**power for power in range(math.ceil(math.log10(high)))]
    return _draw(bins, 1.0, high, ticks, max(min_votes, 1), lambda value: math.log(float(value)))


def _draw(
    bins: Bins, low: float, high: float, ticks: list[float], threshold: float, scale: Callable[[Any], float]
) -> Bars:
    start, end = scale(low), scale(high)

    def across(value: Any) -> float:
        return round(_LEFT + (scale(value) - start) / (end - start) * (WIDTH - _LEFT - _RIGHT), 1)

    stacks = [
        sorted(stack, key=lambda one: STANDINGS.index(one["standing"]))
        for _, stack in groupby(sorted(bins, key=lambda one: float(one["low"])), key=lambda one: float(one["low"]))
    ]
    marks = nice_ticks(0.0, max([4, *(sum(one["annotators"] for one in stack) for stack in stacks)]))
    unit = (HEIGHT - _TOP - _BOTTOM) / marks[-1]
    drawn = []
    for stack in stacks:
        y = HEIGHT - _BOTTOM
        for one in stack:
            x, height = across(one["low"]), one["annotators"] * unit
            y -= height
            width = max(across(one["high"]) - x - 1.0, 1.0)
            drawn.append(Bar(x, round(y, 1), round(width, 1), round(height, 1), one["standing"]))
    return Bars(
        drawn,
        [(across(tick), tick) for tick in ticks],
        [(round(HEIGHT - _BOTTOM - mark * unit, 1), mark) for mark in marks],
        across(threshold),
    )
