"""How many votes of people and of judges a width takes."""

from dataclasses import replace

import numpy as np
import pytest

from app.rating.judges.planning import Mixture, Prices, plan_votes, trace_widths
from app.rating.judges.sharpening import Sharpened
from tests.fixtures.judged_arena import make_arena
from tests.rating.judges.test_sharpening import sharpened


@pytest.fixture(scope="module")
def found() -> Sharpened:
    return sharpened(*make_arena(3, "good").ask(1, 500))


def test_the_widths_now_take_the_votes_that_are_there(found: Sharpened) -> None:
    now = plan_votes(found, 100.0, None)
    assert now.people_width is not None
    assert now.sharpened_width is not None
    again = plan_votes(found, now.people_width, None)
    assert again.people_alone == pytest.approx(500, abs=1)
    assert again.people_with_judges is not None
    assert again.people_with_judges < 500
    as_good = plan_votes(found, now.people_width * np.sqrt(500.0 / found.worth), None)
    assert as_good.people_with_judges == pytest.approx(500, abs=1)
    assert as_good.people_alone == pytest.approx(found.worth, abs=1)


def test_widths_by_the_votes_go_through_those_of_today(found: Sharpened) -> None:
    curve = {point.people_votes: point for point in trace_widths(found)}
    now = curve[500]
    assert now.sharpened is not None
    assert now.sharpened == pytest.approx(now.people * np.sqrt(500.0 / found.worth), rel=1e-9)
    assert curve[2000].people == pytest.approx(now.people / 2.0)
    for votes, point in curve.items():
        if point.sharpened is None:
            assert votes > found.judged, "judges have seen no more battles"
        else:
            again = plan_votes(found, point.sharpened, None)
            assert again.people_with_judges == pytest.approx(votes, abs=2)
    assert trace_widths(replace(found, rating=None))[-1].sharpened is None


def test_half_the_width_takes_four_times_the_votes(found: Sharpened) -> None:
    wide, narrow = (plan_votes(found, width, None).people_alone for width in (120.0, 60.0))
    assert wide is not None
    assert narrow == pytest.approx(4 * wide, abs=4)


def test_beyond_the_judged_battles_judges_help_no_further(found: Sharpened) -> None:
    narrow = plan_votes(found, 5.0, None)
    assert narrow.people_alone == narrow.people_with_judges
    assert narrow.people_alone is not None
    assert narrow.people_alone > 4000


@pytest.mark.parametrize("prices", [Prices(1.0, 0.0001), Prices(1.0, 0.01), Prices(1.0, 1.0)])
def test_no_other_mix_is_cheaper(found: Sharpened, prices: Prices) -> None:
    plan = plan_votes(found, 60.0, prices)
    best, alone, correlation = plan.cheapest, plan.people_alone, plan.correlation
    assert best is not None
    assert alone is not None
    assert correlation is not None
    explained = correlation**2
    n = np.arange(1, alone + 1)
    rest = 1.0 / alone - (1.0 - explained) / n  # of the variance, for N judged battles: explained / N
    N = np.maximum(np.divide(explained, rest, out=np.full(len(n), np.inf), where=rest > 0.0), n)
    cost = (prices.people * n + 3 * prices.judge * N).min()
    assert best.cost <= 1.002 * min(cost, prices.people * alone)
    assert best.judge_votes == 3 * best.judged_battles
    assert (best.judged_battles == 0) == (best.people_votes == alone)


def test_without_judges_it_is_people_alone(found: Sharpened) -> None:
    plan = plan_votes(replace(found, rating=None), 100.0, Prices(2.0, 0.1))
    assert plan.sharpened_width is None
    assert plan.people_with_judges is None
    assert plan.people_alone is not None
    assert plan.cheapest == Mixture(plan.people_alone, 0, 0, 2.0 * plan.people_alone)


def test_without_intervals_there_is_no_plan(found: Sharpened) -> None:
    models = replace(found.people.models, lower=np.full(12, np.nan))
    plan = plan_votes(replace(found, people=replace(found.people, models=models)), 100.0, None)
    assert plan.people_alone is None
