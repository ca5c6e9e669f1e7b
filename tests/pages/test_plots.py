"""The shapes of pictures: who stands where."""

import math
from datetime import date
from itertools import pairwise

from app.pages.plots import draw_curves, draw_front, draw_intervals, draw_ranks


def test_names_at_the_end_of_lines_keep_apart() -> None:
    plot = draw_ranks({"a": [1, 3], "b": [2, 3], "c": [3, 3], "d": [4, None]})
    assert plot is not None
    heights = [line.label for line in plot.lines]
    assert all(below - above >= 17 for above, below in pairwise(heights))
    assert [(line.name, line.rank) for line in plot.lines][-1] == ("d", None)
    assert plot.height > heights[-1]


def test_a_snapshot_without_a_rank_leaves_a_gap() -> None:
    plot = draw_ranks({"a": [1, None, 2, 1]})
    assert plot is not None
    assert [(start, end) for start, _, end, _ in plot.lines[0].segments] == [(66.67, 100.0)]
    assert len(plot.lines[0].dots) == 3


def test_deep_ranks_are_squeezed_and_few_are_marked() -> None:
    plot = draw_ranks({"a": [1, 600], "b": [2, 1]})
    assert plot is not None
    assert plot.height < 30 * 22 + 60
    assert [rank for _, rank in plot.ticks] == [1, *range(25, 601, 25)]
    assert draw_ranks({}) is None
    assert draw_ranks({"a": [None, None]}) is None
    assert draw_ranks({"a": [1]}) is None, "one snapshot makes no line"


def test_a_curve_ends_where_it_has_no_more_values() -> None:
    plot = draw_curves({"long": [80.0, 40.0, 20.0], "short": [60.0, 30.0, None], "none": [None, None, None]})
    assert plot is not None
    assert [(name, [x for *_, x, _ in segments]) for name, segments, _ in plot.lines] == [
        ("long", [50.0, 100.0]),
        ("short", [50.0]),
    ]
    heights = {value: y for y, value in plot.ticks}
    assert plot.lines[0][2] == (100.0, heights[20.0])
    assert plot.height > heights[0.0] > heights[20.0] > heights[80.0] > 0.0
    assert draw_curves({"one": [1.0]}) is None


def test_the_front_is_of_the_best_until_then() -> None:
    days = [date(2026, month, 1) for month in (1, 3, 5, 7)]
    plot = draw_front(zip("abcd", (1000.0, 1100.0, 1050.0, 1200.0), days, strict=True), date.toordinal)
    assert plot is not None
    assert [(point.name, point.best) for point in plot.points] == [("a", True), ("b", True), ("c", False), ("d", True)]
    assert [point.named for point in plot.points] == [False, True, False, True], "at the left there is no room"
    assert all(after <= before for _, before, _, after in plot.segments), "it never falls"
    assert plot.segments[-1][2] == 100.0
    assert draw_front([("a", 1.0, days[0]), ("b", 2.0, days[1])], date.toordinal) is None
    assert draw_front([(name, 1.0, days[0]) for name in "abc"], date.toordinal) is None, "one day"


def test_prices_lie_on_a_logarithmic_axis() -> None:
    plot = draw_front([("dear", 1200.0, 100.0), ("middle", 1000.0, 10.0), ("cheap", 1100.0, 1.0)], math.log)
    assert plot is not None
    found = [(point.name, point.x, point.best) for point in plot.points]
    assert found == [("cheap", 0.0, True), ("middle", 50.0, False), ("dear", 100.0, True)]


def test_intervals_and_levels_share_a_scale() -> None:
    plot = draw_intervals([("a", 0.5, 0.0, 2.0), ("b", None, None, None), ("c", 1.0, None, None)], (0.0, 1.0))
    assert plot is not None
    assert [row[:5] for row in plot.rows] == [("a", 0.5, 25.0, 0.0, 100.0), ("c", 1.0, 50.0, 50.0, 50.0)]
    assert plot.levels == [(0.0, 0.0), (1.0, 50.0)]
    assert draw_intervals([("b", None, None, None)], (0.0, 1.0)) is None
