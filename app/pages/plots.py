"""Pictures whose text keeps its size at any width: `templates/plots.html` draws them.

Across they are in percent of the plot, up and down in pixels.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import Generic, TypeVar

from app.pages.charts import nice_ticks

_ROW = 22.0  # pixels from a rank to the next
_LABEL = 17.0  # pixels that a label needs
_DEEPEST = 30  # ranks that have a row each; where there are more they are squeezed
_HEIGHT, _EDGE = 260.0, 22.0
_FEWEST = 3  # points that make a picture
_NAMED_FROM = 18  # percent across: to the left of it there is no room for a name before its point

Segment = tuple[float, float, float, float]
"""From x, y to x, y."""


@dataclass(frozen=True)
class RankLine:
    """A model's ranks over time: the pieces of its line, its points, and how high its name stands at the end."""

    name: str
    rank: int | None
    segments: Sequence[Segment]
    dots: Sequence[tuple[float, float]]
    label: float


@dataclass(frozen=True)
class RankPlot:
    """Lines of several models, and the marks of the axis: the height and the rank of each."""

    lines: Sequence[RankLine]
    ticks: Sequence[tuple[float, int]]
    height: float


def draw_ranks(ranks: Mapping[str, Sequence[int | None]]) -> RankPlot | None:
    """Draw the ranks of models in the same snapshots, the oldest first, at equal distances; None without two of them.

    A snapshot in which a model has no rank leaves a gap.
    """
    placed = {name: [(i, rank) for i, rank in enumerate(own) if rank is not None] for name, own in ranks.items()}
    lowest = max((rank for own in placed.values() for _, rank in own), default=0)
    last = max((len(own) for own in ranks.values()), default=0) - 1
    if not lowest or last < 1:
        return None
    step = _ROW * min(1.0, _DEEPEST / lowest)

    def at(point: tuple[int, int]) -> tuple[float, float]:
        return round(100 * point[0] / last, 2), round(_EDGE + (point[1] - 1) * step, 1)

    lines, label = [], 0.0
    for name, own in sorted(placed.items(), key=lambda one: one[1][-1][1] if one[1] else lowest):
        if own:
            label = max(at(own[-1])[1], label + _LABEL)  # below the one before, where two end at about the same rank
            segments = [(*at(one), *at(after)) for one, after in pairwise(own) if after[0] == one[0] + 1]
            lines.append(RankLine(name, ranks[name][-1], segments, [at(one) for one in own], label))
    every = next(every for every in (1, 5, 10, 25, 50, 100, 500) if lowest <= every * _DEEPEST)
    marks = [rank for rank in range(1, lowest + 1) if rank == 1 or rank % every == 0]
    return RankPlot(lines, [(at((0, rank))[1], rank) for rank in marks], max(at((0, lowest))[1], label) + _EDGE)


@dataclass(frozen=True)
class CurvePlot:
    """Named curves: name, pieces and last point of each; the marks of the axis, each its height and its number."""

    lines: Sequence[tuple[str, Sequence[Segment], tuple[float, float]]]
    ticks: Sequence[tuple[float, float]]
    height: float = _HEIGHT


def draw_curves(curves: Mapping[str, Sequence[float | None]]) -> CurvePlot | None:
    """Draw positive values at equal distances from left to right, each curve to its last; None without two of one."""
    known = {name: [value for value in values if value is not None] for name, values in curves.items()}
    last = max((len(values) for values in known.values()), default=0) - 1
    if last < 1:
        return None
    ticks = nice_ticks(0.0, max(value for values in known.values() for value in values))

    def at(place: int, value: float) -> tuple[float, float]:
        return round(100 * place / last, 2), round(_HEIGHT - _EDGE - value / ticks[-1] * (_HEIGHT - 2 * _EDGE), 1)

    points = {name: [at(*one) for one in enumerate(values)] for name, values in known.items() if values}
    lines = [(name, [(*one, *after) for one, after in pairwise(own)], own[-1]) for name, own in points.items()]
    return CurvePlot(lines, [(at(0, tick)[1], tick) for tick in ticks])


T = TypeVar("T", float, date)


@dataclass(frozen=True)
class FrontPoint(Generic[T]):
    """A model's point; `best` where no model with less was as good, and `named` where there is room for its name."""

    name: str
    score: float
    value: T
    x: float
    y: float
    best: bool
    named: bool


@dataclass(frozen=True)
class FrontPlot(Generic[T]):
    """Scores by a day or a price, and the line of the best score up to there (the Pareto front).

    Attributes
    ----------
    points : the earliest or cheapest first
    ticks : marks of the axis, each its height and its score
    first, last : of the days or prices
    """

    points: Sequence[FrontPoint[T]]
    segments: Sequence[Segment]
    ticks: Sequence[tuple[float, float]]
    first: T
    last: T
    height: float = _HEIGHT

    @property
    def best(self) -> Sequence[FrontPoint[T]]:
        """The models that were the best when they came, or for their price."""
        return [point for point in self.points if point.best]


def draw_front(scores: Iterable[tuple[str, float, T]], place: Callable[[T], float]) -> FrontPlot[T] | None:
    """Draw models' scores by their days of release or prices; None for fewer than three of them, or one value.

    `place`: where a value lies on the axis, in any unit.
    """
    found = sorted(scores, key=lambda one: (place(one[2]), -one[1], one[0]))
    if len(found) < _FEWEST or found[0][2] == found[-1][2]:
        return None
    first, last = found[0][2], found[-1][2]
    ticks = nice_ticks(min(score for _, score, _ in found), max(score for _, score, _ in found))

    def across(value: T) -> float:
        return round(100 * (place(value) - place(first)) / (place(last) - place(first)), 2)

    def up(score: float) -> float:
        share = (score - ticks[0]) / (ticks[-1] - ticks[0])
        return round(_HEIGHT - _EDGE - share * (_HEIGHT - 2 * _EDGE), 1)

    points: list[FrontPoint[T]] = []
    segments: list[Segment] = []
    x = y = label = _HEIGHT
    for name, score, value in found:
        here, height = across(value), up(score)
        best = not points or height < y
        named = best and label - height >= _LABEL and here >= _NAMED_FROM
        points.append(FrontPoint(name, score, value, here, height, best, named))
        if best:
            segments += [(x, y, here, y), (here, y, here, height)] if len(points) > 1 else []
            x, y = here, height
            label = height if named else label
    segments.append((x, y, 100.0, y))
    return FrontPlot(points, segments, [(up(tick), tick) for tick in ticks], first, last)


@dataclass(frozen=True)
class IntervalPlot:
    """Named intervals below each other: name, value, place of the value, places of the ends, and the height of each.

    Attributes
    ----------
    levels : values that are marked across all, and their places
    """

    rows: Sequence[tuple[str, float, float, float, float, float]]
    levels: Sequence[tuple[float, float]]
    height: float


def draw_intervals(
    rows: Iterable[tuple[str, float | None, float | None, float | None]], levels: Sequence[float]
) -> IntervalPlot | None:
    """Draw values with the ends of their intervals, and levels to hold them against; None without a value."""
    known = [
        (name, value, value if low is None else low, value if high is None else high)
        for name, value, low, high in rows
        if value is not None
    ]
    if not known:
        return None
    start = min([*levels, *(low for _, _, low, _ in known)])
    end = max([*levels, *(high for *_, high in known)])

    def across(value: float) -> float:
        return round(100 * (value - start) / (end - start), 2)

    drawn = [
        (name, value, across(value), across(low), across(high), _EDGE * (at + 1))
        for at, (name, value, low, high) in enumerate(known)
    ]
    return IntervalPlot(drawn, [(level, across(level)) for level in levels], _EDGE * (len(known) + 0.5))
