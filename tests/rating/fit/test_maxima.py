"""Several maxima: other starts find a higher one, and one that is nearly as high is a notice."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.rating.errors import NotConvergedError
from app.rating.fit import maxima, solution
from app.rating.fit.am_elo import Maximum
from app.rating.fit.likelihood import Likelihood
from app.rating.fit.result import Rival
from app.rating.fit.sqp import Optimum
from app.rating.settings import LoopSettings
from app.rating.uncertainty.notices import find_notices
from app.rating.uncertainty.results import RatingNotice
from app.rating.verdict.rating import Rating, estimate
from stable_arena_lab.maxima import climb_from_random_starts, draw_two_camps

USUAL = LoopSettings(min_votes=0, interval="none")
SEEK = replace(USUAL, seek_higher=True)
HIGHER, NEARLY_AS_HIGH = 12, 41  # seeds


def objective(rating: Rating) -> float:
    likelihood = Likelihood(rating.fit.counted(rating.small.cells), 1.0)
    return rating.fit.log_likelihood - likelihood.prior(rating.fit.theta)


@pytest.fixture(scope="module")
def higher() -> tuple[Rating, Rating]:
    cells = draw_two_camps(HIGHER)
    return estimate(cells, USUAL), estimate(cells, SEEK)


def test_the_highest_maximum_is_published(higher: tuple[Rating, Rating]) -> None:
    usual, sought = higher
    assert max(climb_from_random_starts(usual, 10)) > 0.1
    assert max(climb_from_random_starts(sought, 10)) < 1e-6


def test_a_maximum_nearly_as_high_is_a_notice_that_names_models() -> None:
    rating = estimate(draw_two_camps(NEARLY_AS_HIGH), SEEK)
    assert rating.fit.rivals
    assert all(0 <= rival.behind <= np.log(20.0) for rival in rating.fit.rivals)
    (notice,) = [one for one in rating.diagnostics.warnings if one.code == "several-maxima"]
    assert set(notice.models) <= set(range(8))
    assert len(notice.models) >= 2
    named = notice.named([f"model {number}" for number in range(8)])
    assert named["models"] == [f"model {number}" for number in notice.models]
    assert named["models"][0] in named["detail"]


def test_a_rival_with_the_same_order_is_no_notice() -> None:
    rating = estimate(draw_two_camps(0), USUAL)
    same = replace(rating, fit=replace(rating.fit, rivals=(Rival(0.1, 2.0 * rating.fit.R),)))
    other = replace(rating, fit=replace(rating.fit, rivals=(Rival(0.1, -rating.fit.R),)))
    assert "several-maxima" not in {notice.code for notice in find_notices(same)}
    assert "several-maxima" in {notice.code for notice in find_notices(other)}


def test_many_models_are_named_in_part() -> None:
    notice = RatingNotice("code", "a few", tuple(range(7)))
    assert notice.named("abcdefg") == {
        "code": "code", "detail": "a few: a, b, c, d, e and 2 more", "models": list("abcdefg"),
    }  # fmt: skip
    assert RatingNotice("code", "nothing").named("ab")["detail"] == "nothing"


@pytest.mark.parametrize("limits", [{"MOST_VOTES": 600}, {"MOST_MODELS": 7}])
def test_large_vote_sets_have_one_start(
    higher: tuple[Rating, Rating], monkeypatch: pytest.MonkeyPatch, limits: dict[str, int]
) -> None:
    for name, value in limits.items():
        monkeypatch.setattr(solution, name, value)
    rating = estimate(draw_two_camps(HIGHER), SEEK)
    np.testing.assert_array_equal(rating.fit.R, higher[0].fit.R)
    assert rating.fit.rivals == ()


def test_starts_that_fail_change_nothing(higher: tuple[Rating, Rating], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Optimum:
        raise NotConvergedError("a start", np.zeros(8), np.zeros(24))

    monkeypatch.setattr(maxima, "minimise", fail)
    rating = estimate(draw_two_camps(HIGHER), SEEK)
    np.testing.assert_array_equal(rating.fit.R, higher[0].fit.R)


@pytest.mark.parametrize("seed", [0, HIGHER, NEARLY_AS_HIGH])
def test_climbs_that_stop_near_the_known_maximum_would_have_ended_there(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    ends, finish = [], maxima.finish

    def watched(optimum: Optimum, *rest: Any) -> Maximum:
        ends[-1] += 1
        return finish(optimum, *rest)

    monkeypatch.setattr(maxima, "finish", watched)
    fits = []
    for same in (maxima.SAME, 0.0):
        monkeypatch.setattr(maxima, "SAME", same)
        ends.append(0)
        fits.append(estimate(draw_two_camps(seed), SEEK).fit)
    stopped, whole = fits
    assert ends[0] < ends[1]
    np.testing.assert_array_equal(stopped.R, whole.R)
    assert [one.behind for one in stopped.rivals] == [one.behind for one in whole.rivals]
