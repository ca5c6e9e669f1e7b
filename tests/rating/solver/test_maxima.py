"""Several maxima: other starts find a higher one, and one that is nearly as high is a notice."""

from dataclasses import replace

import numpy as np
import pytest

from app.rating.data.votes import Cells, aggregate
from app.rating.errors import NotConvergedError, RatingError
from app.rating.inference.estimate import estimate
from app.rating.inference.notices import find_notices
from app.rating.inference.rating import Rating
from app.rating.inference.results import RatingNotice
from app.rating.settings import LoopSettings
from app.rating.solver import maxima, solution
from app.rating.solver.fit import fit_am_elo
from app.rating.solver.likelihood import Likelihood
from app.rating.solver.result import Rival

USUAL = LoopSettings(min_votes=0, interval="none")
SEEK = replace(USUAL, seek_higher=True)
HIGHER, NEARLY_AS_HIGH = 54, 32  # seeds


def two_camps(seed: int) -> Cells:
    """Annotators who follow either of two rankings of 8 models, 12 of each, with 25 votes each."""
    generator = np.random.default_rng(seed)
    rankings = generator.normal(0, 0.8, (2, 8))
    annotator = np.repeat(np.arange(24), 25)
    model_a = generator.integers(0, 8, 600)
    model_b = (model_a + generator.integers(1, 8, 600)) % 8
    camp = annotator % 2
    difference = rankings[camp, model_a] - rankings[camp, model_b]
    won = generator.random(600) < 1 / (1 + np.exp(-difference))
    return aggregate(annotator, model_a, model_b, won.astype(float), n_annotators=24, n_models=8)


def objective(rating: Rating) -> float:
    likelihood = Likelihood(rating.fit.counted(rating.small.cells), 1.0)
    return rating.fit.log_likelihood - likelihood.prior(rating.fit.theta)


def highest_of_random_starts(rating: Rating, number: int) -> float:
    """Climb from random scores and abilities, on the votes as the rating weighed them."""
    cells, generator = rating.fit.counted(rating.small.cells), np.random.default_rng(1)
    likelihood, label = Likelihood(cells, 1.0), rating.components.label[rating.small.models]
    values = []
    for _ in range(number):
        start = generator.normal(size=cells.n_models), generator.normal(size=cells.n_annotators)
        try:
            fit = fit_am_elo(cells, label, start=start)
        except RatingError:
            continue
        values.append(fit.log_likelihood - likelihood.prior(fit.theta))
    return max(values)


@pytest.fixture(scope="module")
def higher() -> tuple[Rating, Rating]:
    cells = two_camps(HIGHER)
    return estimate(cells, USUAL), estimate(cells, SEEK)


def test_the_highest_maximum_is_published(higher: tuple[Rating, Rating]) -> None:
    usual, sought = higher
    assert highest_of_random_starts(usual, 10) > objective(usual) + 0.1
    assert highest_of_random_starts(sought, 10) < objective(sought) + 1e-6


def test_a_maximum_nearly_as_high_is_a_notice_that_names_models() -> None:
    rating = estimate(two_camps(NEARLY_AS_HIGH), SEEK)
    assert rating.fit.rivals
    assert all(0 <= rival.behind <= np.log(20.0) for rival in rating.fit.rivals)
    (notice,) = [one for one in rating.diagnostics.warnings if one.code == "several-maxima"]
    assert set(notice.models) <= set(range(8))
    assert len(notice.models) >= 2
    named = notice.named([f"model {number}" for number in range(8)])
    assert named["models"] == [f"model {number}" for number in notice.models]
    assert named["models"][0] in named["detail"]


def test_a_rival_with_the_same_order_is_no_notice() -> None:
    rating = estimate(two_camps(0), USUAL)
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
    rating = estimate(two_camps(HIGHER), SEEK)
    np.testing.assert_array_equal(rating.fit.R, higher[0].fit.R)
    assert rating.fit.rivals == ()


def test_starts_that_fail_change_nothing(higher: tuple[Rating, Rating], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise NotConvergedError("a start", np.zeros(8), np.zeros(24))

    monkeypatch.setattr(maxima, "fit_am_elo", fail)
    rating = estimate(two_camps(HIGHER), SEEK)
    np.testing.assert_array_equal(rating.fit.R, higher[0].fit.R)


def test_a_higher_maximum_is_kept_where_a_fit_with_its_weights_fails(
    higher: tuple[Rating, Rating], monkeypatch: pytest.MonkeyPatch
) -> None:
    fit, calls = solution._fit, []

    def fail_later(*given: object) -> object:
        calls.append(given)
        if len(calls) > 1:
            raise NotConvergedError("a start", np.zeros(8), np.zeros(24))
        return fit(*given)  # type: ignore[arg-type]  # what is handed on

    monkeypatch.setattr(solution, "_fit", fail_later)
    rating = estimate(two_camps(HIGHER), SEEK)
    assert len(calls) == 2
    assert objective(rating) > objective(higher[0])
