"""The solver's own parts, and what it does where there is nothing to be found."""

from typing import Any

import numba
import numpy as np
import pytest
from app.rating.fit.am_elo import fit_am_elo
from app.rating.fit.partition import Partition
from app.rating.fit.result import FitResult
from scipy.linalg import LinAlgError

from app.rating import arrays as sums
from app.rating.arrays import distinct, sum_by_key
from app.rating.compiled import compiled
from app.rating.errors import NotConvergedError
from app.rating.fit import abilities as own
from app.rating.fit import m_elo, sqp
from app.rating.fit.arrow import observe
from app.rating.fit.likelihood import Likelihood
from app.rating.fit.m_elo import fit_m_elo, minimise_scores
from app.rating.fit.rows import CellRows
from app.rating.settings import LoopSettings
from app.rating.simulation.worlds import simulate_votes
from app.rating.uncertainty.covariance import covariance
from app.rating.verdict.round import run_round
from app.rating.votes import graph
from app.rating.votes.cells import Cells, aggregate
from app.rating.votes.compact import pool_annotators
from app.rating.votes.graph import find_components, find_identified

MODELS, ANNOTATORS = 6, 25


@pytest.fixture
def cells() -> Cells:
    votes = simulate_votes(1, n_models=MODELS, roles={"honest": ANNOTATORS}, votes_each=40)
    return aggregate(votes.annotator, votes.model_a, votes.model_b, votes.outcome, **votes.sizes)


def together(cells: Cells) -> np.ndarray:
    return np.zeros(cells.n_models, dtype=np.int64)


def test_a_fit_out_of_iterations_is_no_result(cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(m_elo, "MAX_ITERATIONS", 2)
    with pytest.raises(NotConvergedError, match="not converged after 2 iterations"):
        fit_m_elo(cells, together(cells))


def test_steps_that_never_decrease_are_no_result(cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(m_elo, "MAX_HALVINGS", 0)
    with pytest.raises(NotConvergedError, match="no step decreases the objective"):
        fit_m_elo(cells, together(cells))


def test_a_step_that_overshoots_is_halved(cells: Cells) -> None:
    """So far from the maximum the curvature is next to nothing."""
    label = together(cells)
    start = 6.0 * np.cos(np.pi * np.arange(cells.n_models))
    here = minimise_scores(Likelihood(pool_annotators(cells), None), label, start, np.ones(1))
    np.testing.assert_allclose(here.R, fit_m_elo(cells, label).R, atol=1e-9)


def test_a_singular_hessian_is_no_result_and_bars_no_model(cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise LinAlgError

    monkeypatch.setattr(m_elo, "Block", refuse)
    with pytest.raises(NotConvergedError, match="singular at iteration 1"):
        run_round(cells, LoopSettings(method="m-elo", min_votes=0))


def test_scores_further_apart_than_any_votes_can_tell_are_no_result(
    cells: Cells, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqp, "DIVERGED", 0.1)
    monkeypatch.setattr(sqp, "WIDER", 0.5)  # of the range of the start, which is near the optimum's
    with pytest.raises(NotConvergedError, match="diverges to infinity by iteration 1"):
        fit_am_elo(cells, together(cells))
    assert np.ptp(fit_m_elo(cells, together(cells)).R) > 0.1  # whose maximum is known to be finite


def test_an_ability_without_curvature_stays(cells: Cells) -> None:
    part = Partition(cells, np.zeros(ANNOTATORS, dtype=np.int64), 1, None, np.inf)
    part.expand(np.zeros(MODELS), np.zeros(1), exact=False)
    np.testing.assert_array_equal(part.arrow.inverse_D, 0.0)
    part.update_abilities(np.zeros(MODELS), steps=2, furthest=1.5)
    np.testing.assert_array_equal(part.theta, 1.0)


def test_abilities_that_are_all_held_leave_m_elo_and_their_own_curvature(cells: Cells) -> None:
    none, all_held = np.zeros(ANNOTATORS, dtype=bool), np.ones(ANNOTATORS, dtype=bool)
    R = fit_m_elo(cells, together(cells)).R
    held = FitResult(R, np.ones(ANNOTATORS), all_held, 0.0, 0, none)
    ours = covariance(cells, held, together(cells), kind="sandwich", prior_sd=1.0, abilities=True)
    m_elo = covariance(cells, held, together(cells), kind="sandwich", prior_sd=None, abilities=False)
    np.testing.assert_allclose(ours.variance, m_elo.variance, rtol=1e-9)
    assert not observe(cells, held, together(cells), prior_sd=None, abilities=False).ability_inverse().any()
    D = Likelihood(cells, 1.0).expand(R, np.ones(ANNOTATORS)).D
    np.testing.assert_allclose(ours.ability_se, 1 / np.sqrt(D), rtol=1e-9)


def test_a_saddle_point_has_no_covariance(cells: Cells) -> None:
    """Where all scores are equal, abilities gain by any of them that the votes ask for."""
    none = np.zeros(ANNOTATORS, dtype=bool)
    saddle = FitResult(np.zeros(MODELS), np.ones(ANNOTATORS), none, 0.0, 0, none)
    with pytest.raises(NotConvergedError):
        covariance(cells, saddle, together(cells), kind="clustered", prior_sd=1.0, abilities=True)


def test_abilities_that_no_vote_tells_of_have_no_covariance(cells: Cells) -> None:
    """Between equals, and without a prior."""
    none = np.zeros(ANNOTATORS, dtype=bool)
    flat = FitResult(np.zeros(MODELS), np.ones(ANNOTATORS), none, 0.0, 0, none)
    with pytest.raises(NotConvergedError, match="no maximum: an ability without curvature"):
        observe(cells, flat, together(cells), prior_sd=None)


def test_cores_are_the_same_without_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    for _ in range(20):
        a = generator.integers(0, 8, 12)
        b = (a + generator.integers(1, 8, 12)) % 8
        cells = aggregate(
            generator.integers(0, 3, 12), a, b, generator.choice([0, 0.5, 1], 12), n_annotators=3, n_models=8
        )
        sign = generator.choice([-1.0, 0.0, 1.0], 3)
        by_table = find_identified(cells, find_components(cells), sign)
        with monkeypatch.context() as patch:
            patch.setattr(graph, "TABLE_SIZE", 0)
            np.testing.assert_array_equal(find_identified(cells, find_components(cells), sign), by_table)


def test_sums_by_key_are_the_same_without_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    key, weight = np.array([5, 1, 5, 3]), np.array([1.0, 2.0, 3.0, 4.0])
    for size in (sums.TABLE_SIZE, 0):
        monkeypatch.setattr(sums, "TABLE_SIZE", size)
        keys, (total,) = sum_by_key(key, 6, weight)
        assert keys.tolist() == distinct(key, 6).tolist() == [1, 3, 5]
        assert total.tolist() == [2.0, 4.0, 4.0]


def test_without_a_place_for_machine_code_functions_compile_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    njit, asked = numba.njit, []

    def nowhere(**options: Any) -> Any:
        asked.append(options.get("cache", False))
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return njit(**options)

    monkeypatch.setattr(numba, "njit", nowhere)
    assert compiled(lambda x: x + 1)(1) == 2
    assert asked == [True, False]


def test_a_search_out_of_steps_stands_where_it_came_to(cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own, "MOST_STEPS", 1)
    R, start = np.linspace(-2, 2, MODELS), np.full(ANNOTATORS, 5.0)
    rows = CellRows(cells)
    once = own.profile_abilities(rows, R, start, precision=1.0)
    monkeypatch.setattr(own, "MOST_STEPS", 100)
    whole = own.profile_abilities(rows, R, start, precision=1.0)
    assert np.all(np.abs(once.theta - whole.theta) > 1e-3)
    assert np.all(np.abs(once.theta - whole.theta) < np.abs(start - whole.theta))
