"""The slower, surer solver: crowds that press against the ability cap."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from app.rating.data.votes import Cells, aggregate
from app.rating.errors import NotConvergedError
from app.rating.loop.round import run_round
from app.rating.settings import LEAST_CAP, LoopSettings
from app.rating.solver import capped as capped_solver
from app.rating.solver.arrow import Problem
from app.rating.solver.capped import minimise_capped
from app.rating.solver.fit import fit_am_elo
from app.rating.solver.likelihood import Likelihood
from app.rating.solver.newton import minimise
from app.rating.solver.scale import find_scale


def crowd(seed: int, *, annotators: int = 30, models: int = 4, each: int = 60, spread: float = 0.0) -> Cells:
    """So many annotators of ability 1 ± spread."""
    generator = np.random.default_rng(seed)
    annotator = np.repeat(np.arange(annotators), each)
    a = generator.integers(0, models, len(annotator))
    b = (a + generator.integers(1, models, len(annotator))) % models
    R, theta = np.linspace(-1, 1, models), generator.normal(1, spread, annotators)
    won = (generator.random(len(annotator)) < expit(theta[annotator] * (R[a] - R[b]))).astype(float)
    return aggregate(annotator, a, b, won, n_annotators=annotators, n_models=models)


def problem_of(cells: Cells, cap: float | None) -> Problem:
    component = np.zeros(cells.n_models, dtype=np.int64)
    return Problem(Likelihood(cells, 1.0), component, find_scale(cells), cap)


def start_of(cells: Cells) -> tuple[np.ndarray, np.ndarray]:
    return np.linspace(-0.5, 0.5, cells.n_models), np.ones(cells.n_annotators)


def textbook(cells: Cells, cap: float, R: np.ndarray, theta: np.ndarray) -> float:
    """The least objective that a general-purpose solver finds from there, under the same constraints."""
    models, k = cells.n_models, cells.annotator

    def objective(z: np.ndarray) -> tuple[float, np.ndarray]:
        r, t = z[:models], z[models:]
        d = r[cells.model_a] - r[cells.model_b]
        left = cells.s - cells.n * expit(t[k] * d)
        slope = np.append(np.zeros(models), t - 1)
        np.add.at(slope, cells.model_a, -t[k] * left)
        np.add.at(slope, cells.model_b, t[k] * left)
        np.add.at(slope, models + k, -left * d)
        value = cells.n @ np.logaddexp(0, t[k] * d) - cells.s @ (t[k] * d) + np.sum((t - 1) ** 2) / 2
        return float(value), slope

    constraint: Any = {
        "type": "eq",
        "fun": lambda z: np.tanh((z[models:] - 1) / 0.3).sum(),
        "jac": lambda z: np.append(np.zeros(models), 1 / np.cosh((z[models:] - 1) / 0.3) ** 2 / 0.3),
    }
    bounds = [(-9.0, 9.0)] * models + [(-9.0, cap)] * cells.n_annotators
    options: Any = {"maxiter": 800, "ftol": 1e-13}
    found = minimize(
        objective,
        np.append(R, theta),
        jac=True,
        method="SLSQP",
        constraints=[constraint],
        bounds=bounds,
        options=options,
    )
    return float(found.fun)


@pytest.mark.parametrize("spread", [0.0, 0.5])
@pytest.mark.parametrize("seed", range(6))
def test_a_crowd_at_the_lowest_cap_is_fitted_as_well_as_by_a_general_solver(seed: int, spread: float) -> None:
    cells = crowd(seed, spread=spread)
    optimum = minimise_capped(problem_of(cells, LEAST_CAP), *start_of(cells))
    assert np.count_nonzero(optimum.theta == LEAST_CAP) > 10
    assert optimum.theta.max() == LEAST_CAP
    assert abs(np.tanh((optimum.theta - 1) / 0.3).sum()) < 1e-9
    nudged = np.random.default_rng(seed).normal(0, 1e-2, cells.n_models)
    assert optimum.value == pytest.approx(textbook(cells, LEAST_CAP, optimum.R + nudged, optimum.theta), abs=1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_both_solvers_agree_where_both_find_the_maximum(seed: int) -> None:
    cells = crowd(seed, spread=0.4)
    problem, start = problem_of(cells, 1.5), start_of(cells)
    fast, sure = minimise(problem, *start), minimise_capped(problem, *start)
    np.testing.assert_allclose(sure.R, fast.R, atol=1e-8)
    np.testing.assert_allclose(sure.theta, fast.theta, atol=1e-8)


def test_it_is_asked_where_the_fast_solver_finds_no_way_down(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def ask(problem: Problem, R: np.ndarray, theta: np.ndarray) -> Any:
        asked.append(theta)
        raise NotConvergedError("no", R, theta)

    monkeypatch.setattr("app.rating.solver.fit.minimise_capped", ask)
    with pytest.raises(NotConvergedError, match="no step decreases the objective"):
        fit_am_elo(crowd(0), np.zeros(4, dtype=np.int64), ability_cap=LEAST_CAP)
    first, second = asked
    assert np.ptp(first) > 0
    assert np.all(second == 1)


def test_it_begins_anew_where_a_start_leads_nowhere() -> None:
    """So many abilities start at the cap that no others could make up for them."""
    generator = np.random.default_rng(5)
    annotator = np.repeat(np.arange(60), 60)
    a = generator.integers(0, 6, 3600)
    b = (a + generator.integers(1, 6, 3600)) % 6
    R, theta = np.linspace(-0.5, 0.5, 6), generator.normal(1, 0.3, 60) * np.where(generator.random(60) < 0.3, 0, 1)
    won = (generator.random(3600) < expit(theta[annotator] * (R[a] - R[b]))).astype(float)
    cells = aggregate(annotator, a, b, won, n_annotators=60, n_models=6)
    fit = fit_am_elo(cells, np.zeros(6, dtype=np.int64), ability_cap=LEAST_CAP)
    assert fit.at_cap.sum() > 20


def test_fewer_than_a_crowd_stay_undecided() -> None:
    with pytest.raises(NotConvergedError, match="no step decreases the objective"):
        fit_am_elo(crowd(0, annotators=12), np.zeros(4, dtype=np.int64), ability_cap=LEAST_CAP)


@pytest.mark.parametrize("cap", [1.1, 1.15, 1.2])
def test_every_cap_that_a_policy_may_set_can_be_fitted(cap: float) -> None:
    for seed in range(10):
        board = run_round(crowd(seed, spread=0.1), LoopSettings(ability_cap=cap)).rating.models
        assert np.all(np.diff(board.score) > 0)


def test_two_groups_that_no_vote_links_are_fitted_each_for_itself() -> None:
    one, other = crowd(1), crowd(2)
    names = ("annotator", "model_a", "model_b", "n", "s", "ties")
    shift = {"annotator": 30, "model_a": 4, "model_b": 4}
    columns = [np.append(getattr(one, x), getattr(other, x) + shift.get(x, 0)) for x in names]
    both = Cells(*columns, 60, 8)
    problem = Problem(Likelihood(both, 1.0), np.repeat([0, 1], 4), find_scale(both), LEAST_CAP)
    optimum = minimise_capped(problem, np.tile(np.linspace(-0.5, 0.5, 4), 2), np.ones(60))
    for group, cells in enumerate((one, other)):
        alone = minimise_capped(problem_of(cells, LEAST_CAP), *start_of(cells))
        np.testing.assert_allclose(optimum.R[4 * group : 4 * group + 4], alone.R, atol=1e-8)


def test_without_a_cap_it_is_of_no_use() -> None:
    cells = crowd(0)
    with pytest.raises(ValueError, match="cap"):
        minimise_capped(problem_of(cells, None), *start_of(cells))


@pytest.mark.parametrize(
    ("limit", "value", "message"),
    [
        ("MAX_ITERATIONS", 2, "after 2 iterations"),
        ("MAX_HALVINGS", 0, "after 1 iterations"),
        ("ROUNDS", 1, "the quadratic problem has no solution"),
    ],
)
def test_it_says_when_it_has_not_settled(monkeypatch: pytest.MonkeyPatch, limit: str, value: int, message: str) -> None:
    cells = crowd(0)
    monkeypatch.setattr(capped_solver, limit, value)
    with pytest.raises(NotConvergedError, match=message):
        minimise_capped(problem_of(cells, LEAST_CAP), *start_of(cells))


def test_small_worlds_end_one_way_or_the_other() -> None:
    """Annotators who know nothing or the opposite, two models, one annotator, starts anywhere."""
    ended = Counter[str]()
    for seed in range(300):
        generator = np.random.default_rng(seed)
        models, annotators, each = (int(generator.integers(*ends)) for ends in ((2, 6), (1, 12), (2, 40)))
        annotator = np.repeat(np.arange(annotators), each)
        a = generator.integers(0, models, len(annotator))
        b = (a + generator.integers(1, models, len(annotator))) % models
        R, theta = (
            generator.normal(0, generator.choice([0.3, 3]), models),
            generator.choice([1.0, 0.0, -1.0], annotators),
        )
        won = (generator.random(len(annotator)) < expit(theta[annotator] * (R[a] - R[b]))).astype(float)
        problem = problem_of(aggregate(annotator, a, b, won, n_annotators=annotators, n_models=models), 1.3)
        try:
            optimum = minimise_capped(problem, generator.normal(size=models), generator.normal(1, 0.5, annotators))
        except NotConvergedError:
            ended["unsettled"] += 1
            continue
        ended["settled"] += 1
        point = problem.likelihood.expand(optimum.R, optimum.theta, exact=True)
        np.testing.assert_allclose(point.gradient_scores, 0, atol=1e-6)
        assert optimum.theta.max() <= 1.3
    assert ended["settled"] > 200
    assert ended["unsettled"] > 5
