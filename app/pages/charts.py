"""A line with its band, such as a score over time with its interval, as shapes that `templates/parts.html` draws.

It is drawn where it is shown, in the page's own colours: one for each model, or annotator, would be too many to store.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

WIDTH, HEIGHT = 640.0, 230.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 92.0, 12.0, 14.0, 30.0
_MOST_TICKS = 5


BandPoint = tuple[float | None, float | None, float | None]
"""A value at one place, and the ends of its interval; None where there is none."""


@dataclass(frozen=True)
class BandChart:
    """Shapes in a box of `WIDTH` × `HEIGHT`.

    Attributes
    ----------
    ticks : the height and the number of each mark on the axis
    lines, bands : points of polylines and polygons, as SVG writes them
    dots : points that are alone between gaps, and the last point
    levels : the heights of further values that are drawn as lines across
    """

    ticks: list[tuple[float, float]]
    lines: list[str]
    bands: list[str]
    dots: list[tuple[float, float]]
    levels: list[float]
    left: float = _LEFT
    right: float = WIDTH - _RIGHT
    width: float = WIDTH
    height: float = HEIGHT


def draw_band(points: Sequence[BandPoint], levels: Sequence[float] = ()) -> BandChart | None:
    """Draw the points at equal distances from left to right; None without a value.

    A point without a value leaves a gap.
    """
    known = [x for one in points for x in one if one[0] is not None and x is not None]
    if not known:
        return None
    ticks = nice_ticks(min([*known, *levels]), max([*known, *levels]))
    low, high = ticks[0], ticks[-1]

    def across(place: int) -> float:
        share = place / (len(points) - 1) if len(points) > 1 else 0.5
        return round(_LEFT + share * (WIDTH - _LEFT - _RIGHT), 1)

    def up(value: float) -> float:
        return round(HEIGHT - _BOTTOM - (value - low) / (high - low) * (HEIGHT - _TOP - _BOTTOM), 1)

    runs = list(_runs(points))
    lines = [" ".join(f"{across(i)},{up(points[i][0] or 0.0)}" for i in run) for run in runs if len(run) > 1]
    alone = [run[0] for run in runs if len(run) == 1] + [runs[-1][-1]]
    bands = []
    for run in runs:
        ends = [(across(i), *points[i][1:]) for i in run]
        shape = [(x, up(upper)) for x, lower, upper in ends if upper is not None and lower is not None]
        shape += [(x, up(lower)) for x, lower, upper in reversed(ends) if upper is not None and lower is not None]
        if len(shape) > 2:  # noqa: PLR2004  two points have no area
            bands.append(" ".join(f"{x},{y}" for x, y in shape))
    dots = [(across(i), up(points[i][0] or 0.0)) for i in dict.fromkeys(alone)]
    return BandChart([(up(tick), tick) for tick in ticks], lines, bands, dots, [up(level) for level in levels])


def nice_ticks(low: float, high: float) -> list[float]:
    """Return at most six round numbers at equal distances, the first at most `low`, the last at least `high`."""
    rough = max(high - low, 1e-6 * max(abs(high), 1.0)) / (_MOST_TICKS - 1)
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= rough)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [round(i * step, 9) for i in range(first, max(last, first + 1) + 1)]


def _runs(points: Sequence[BandPoint]) -> Iterator[list[int]]:
    """Return the places of neighbours that have a value."""
    for known, run in groupby(range(len(points)), key=lambda i: points[i][0] is not None):
        if known:
            yield list(run)
