"""Sequential quadratic programming: crowds that press against the ability cap, and others."""

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import pytest
from app.rating.fit.am_elo import fit_am_elo
from app.rating.fit.partition import Expansion, Partition
from app.rating.fit.partitions import Partitions
from app.rating.fit.scale import find_scale
from scipy.optimize import minimize
from scipy.special import expit

from app.rating.errors import NotConvergedError
from app.rating.fit import sqp
from app.rating.fit.likelihood import Likelihood, laplacian
from app.rating.settings import LEAST_CAP, LoopSettings
from app.rating.verdict.round import run_round
from app.rating.votes.cells import Cells, aggregate


class Ending(NamedTuple):
    """Where a search ended."""

    R: np.ndarray
    theta: np.ndarray
    value: float
    partitions: Partitions


def crowd(seed: int, *, annotators: int = 30, models: int = 4, each: int = 60, spread: float = 0.0) -> Cells:
    """So many annotators of ability 1 ± spread."""
    generator = np.random.default_rng(seed)
    annotator = np.repeat(np.arange(annotators), each)
    a = generator.integers(0, models, len(annotator))
    b = (a + generator.integers(1, models, len(annotator))) % models
    R, theta = np.linspace(-1, 1, models), generator.normal(1, spread, annotators)
    won = (generator.random(len(annotator)) < expit(theta[annotator] * (R[a] - R[b]))).astype(float)
    return aggregate(annotator, a, b, won, n_annotators=annotators, n_models=models)


def solve(cells: Cells, cap: float | None, *start: np.ndarray, component: np.ndarray | None = None) -> Ending:
    """Minimise from a start, by default a mild ranking and abilities of 1."""
    label = np.zeros(cells.n_models, dtype=np.int64) if component is None else component
    partitions = Partitions.of(cells, label, find_scale(cells), prior_sd=1.0, cap=cap)
    R, theta = start or (np.linspace(-0.5, 0.5, cells.n_models), np.ones(cells.n_annotators))
    partitions.begin(theta)
    optimum = sqp.minimise(partitions, R)
    point = partitions.total(Partition.expand, optimum.R, np.zeros(partitions.scale.number), exact=True)
    return Ending(optimum.R, partitions.abilities(), point.value, partitions)


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
    optimum = solve(cells, LEAST_CAP)
    assert np.count_nonzero(optimum.theta == LEAST_CAP) > 10
    assert optimum.theta.max() == LEAST_CAP
    assert abs(np.tanh((optimum.theta - 1) / 0.3).sum()) < 1e-9
    nudged = np.random.default_rng(seed).normal(0, 1e-2, cells.n_models)
    assert optimum.value == pytest.approx(textbook(cells, LEAST_CAP, optimum.R + nudged, optimum.theta), abs=1e-7)


def test_a_start_that_cannot_be_brought_to_the_typical_ability_is_drawn_to_it() -> None:
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


def test_a_few_annotators_at_the_lowest_cap_have_a_fit() -> None:
    fit = fit_am_elo(crowd(0, annotators=12), np.zeros(4, dtype=np.int64), ability_cap=LEAST_CAP)
    assert fit.at_cap.sum() > 4


@pytest.mark.parametrize("cap", [1.1, 1.15, 1.2])
def test_every_cap_that_a_policy_may_set_can_be_fitted(cap: float) -> None:
    for seed in range(10):
        board = run_round(crowd(seed, spread=0.1), LoopSettings(ability_cap=cap)).models
        assert np.all(np.diff(board.score) > 0)


def test_two_groups_that_no_vote_links_are_fitted_each_for_itself() -> None:
    one, other = crowd(1), crowd(2)
    names = ("annotator", "model_a", "model_b", "n", "s", "ties")
    shift = {"annotator": 30, "model_a": 4, "model_b": 4}
    columns = [np.append(getattr(one, x), getattr(other, x) + shift.get(x, 0)) for x in names]
    both = Cells(*columns, 60, 8)
    optimum = solve(both, LEAST_CAP, np.tile(np.linspace(-0.5, 0.5, 4), 2), np.ones(60), component=np.repeat([0, 1], 4))
    for group, cells in enumerate((one, other)):
        np.testing.assert_allclose(optimum.R[4 * group : 4 * group + 4], solve(cells, LEAST_CAP).R, atol=1e-8)


@pytest.mark.parametrize(
    ("module", "limit", "value", "message"),
    [
        (sqp, "MAX_ITERATIONS", 2, "after iteration 2"),
        (sqp, "MAX_HALVINGS", 0, "no step decreases the objective"),
        (sqp, "MOST_ROUNDS", 1, "the quadratic problem has no solution"),
        (sqp, "RAISES", (), "the quadratic problem has no solution"),
    ],
)
def test_it_says_when_it_has_not_converged(
    monkeypatch: pytest.MonkeyPatch, module: Any, limit: str, value: object, message: str
) -> None:
    monkeypatch.setattr(module, limit, value)
    with pytest.raises(NotConvergedError, match=message):
        solve(crowd(0), LEAST_CAP)


def test_a_decrement_that_rounding_keeps_from_shrinking_is_small_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    there = solve(crowd(0), LEAST_CAP)
    monkeypatch.setattr(sqp, "CONVERGED", 0.0)
    np.testing.assert_allclose(solve(crowd(0), LEAST_CAP).R, there.R, atol=1e-7)


def test_the_step_solves_the_optimality_conditions() -> None:
    """Twin: the whole system at once, with the abilities held that the step holds."""
    cells, models, annotators = crowd(3, spread=0.4), 4, 30
    partitions = Partitions.of(cells, np.zeros(models, dtype=np.int64), find_scale(cells), prior_sd=1.0, cap=1.2)
    R = partitions.normalise(np.linspace(-1, 1, models))
    (part,) = partitions.each(lambda part: part)
    point = partitions.total(Partition.expand, R, np.array([0.3]), exact=True)
    step = sqp.solve_quadratic(partitions, point)
    assert step is not None
    assert 3 < part.held.sum() < 27
    arrow, B = part.arrow, np.zeros((annotators, models))
    np.add.at(B, (cells.annotator, cells.model_a), arrow.point.cross)
    np.add.at(B, (cells.annotator, cells.model_b), -arrow.point.cross)
    A = laplacian(point.stiffness, models)
    hessian = np.block([[A, B.T], [B, np.diag(1 / arrow.inverse_D)]])
    d = np.append(step.scores, part.step)
    bound = np.append(np.zeros(models), arrow.v)
    left = hessian @ d + np.append(point.gradient, arrow.point.gradient_abilities) + step.multiplier[0] * bound
    free = np.append(np.ones(models, dtype=bool), ~part.held)
    np.testing.assert_allclose(left[free], 0, atol=1e-9)
    assert np.all(left[~free] < 0)  # the model would take them further beyond the cap
    np.testing.assert_allclose(part.theta[part.held] + part.step[part.held], 1.2)
    assert np.all(part.theta + part.step <= 1.2 + 1e-12)
    assert arrow.v @ part.step == pytest.approx(-0.3 * point.violation[0], abs=1e-9)
    assert step.size == pytest.approx(step.scores @ A @ step.scores + part.step**2 @ arrow.D)


def test_the_last_step_takes_the_products_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are the most expensive sum, and the optimum is the same."""
    cells, known, solve_quadratic = crowd(0, spread=0.4), list[bool](), sqp.solve_quadratic

    def watched(partitions: Partitions, point: Expansion, product: np.ndarray | None) -> sqp.Step | None:
        known.append(product is not None)
        return solve_quadratic(partitions, point, product)

    monkeypatch.setattr(sqp, "solve_quadratic", watched)
    ending = solve(cells, 1.75)
    assert known == [False] * (len(known) - 1) + [True]
    monkeypatch.setattr(sqp, "solve_quadratic", lambda partitions, point, _: solve_quadratic(partitions, point))
    np.testing.assert_allclose(solve(cells, 1.75).R, ending.R, rtol=0, atol=1e-9)


def test_products_that_are_known_are_not_summed() -> None:
    cells = crowd(3, spread=0.4)
    partitions = Partitions.of(cells, np.zeros(4, dtype=np.int64), find_scale(cells), prior_sd=1.0, cap=1.2)
    R = partitions.normalise(np.linspace(-1, 1, 4))
    point = partitions.total(Partition.expand, R, np.array([0.3]), exact=True)
    step = sqp.solve_quadratic(partitions, point)
    assert step is not None
    again = sqp.solve_quadratic(partitions, point, step.product)  # those free at the end are free from the start
    assert again is not None
    np.testing.assert_allclose(again.scores, step.scores, rtol=0, atol=1e-12)


@pytest.mark.campaign
def test_small_worlds_end_one_way_or_the_other() -> None:
    """Annotators who know nothing or the opposite, two models, one annotator, starts anywhere."""
    ended = Counter[str]()
    for seed in range(100):
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
        cells = aggregate(annotator, a, b, won, n_annotators=annotators, n_models=models)
        try:
            optimum = solve(cells, 1.3, generator.normal(size=models), generator.normal(1, 0.5, annotators))
        except NotConvergedError:
            ended["unsettled"] += 1
            continue
        ended["settled"] += 1
        point = Likelihood(cells, 1.0).expand(optimum.R, optimum.theta)
        np.testing.assert_allclose(point.gradient_scores, 0, atol=1e-6)
        assert optimum.theta.max() <= 1.3
    assert ended["settled"] > 66
    assert ended["unsettled"] > 1


def long_tail(seed: int) -> Cells:
    """Draw the votes of 200 annotators, most of whom have few; one in ten votes at random, and one in ten opposes."""
    generator = np.random.default_rng(seed)
    share = np.arange(1.0, 201.0) ** -0.8
    k = generator.choice(200, 8_000, p=share / share.sum())
    theta = np.where(np.arange(200) % 10 == 0, 0.0, np.where(np.arange(200) % 10 == 5, -1.0, 1.0))
    a = generator.integers(0, 12, len(k))
    b = (a + generator.integers(1, 12, len(k))) % 12
    R = np.linspace(-1.5, 1.5, 12)
    won = (generator.random(len(k)) < expit(theta[k] * (R[a] - R[b]))).astype(float)
    return aggregate(k, a, b, won, n_annotators=200, n_models=12)


def test_annotators_with_few_votes_do_not_hold_up_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    cells, label = long_tail(0), np.zeros(12, dtype=np.int64)
    together = fit_am_elo(cells, label)
    monkeypatch.setattr("app.rating.fit.partition.LONG", np.inf)
    alone = fit_am_elo(cells, label)
    np.testing.assert_allclose(together.R, alone.R, atol=1e-9)
    assert together.iterations < alone.iterations


def test_an_ability_that_had_a_long_step_goes_to_the_minimum_of_its_own_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.rating.fit.partition.LONG", 0.0)
    cells, R = long_tail(1), np.linspace(-1, 1, 12)
    partitions = Partitions.of(cells, np.zeros(12, dtype=np.int64), find_scale(cells), prior_sd=1.0, cap=1.5)
    partitions.begin(np.ones(200))
    multiplier = np.array([-0.4])
    point = partitions.total(Partition.expand, R, multiplier, exact=True)
    assert sqp.solve_quadratic(partitions, point) is not None
    partitions.each(Partition.move, 1.0)
    partitions.each(Partition.refine, R, multiplier, 1.0)
    partitions.total(Partition.expand, R, multiplier, exact=True)
    theta = partitions.abilities()
    (part,) = partitions.each(lambda part: part)
    gradient = part.arrow.point.gradient_abilities + multiplier * (1.0 - np.tanh((theta - 1.0) / 0.3) ** 2)
    held = theta >= 1.5
    assert 0 < held.sum() < 100
    assert np.all(gradient[held] < 0.0)
    np.testing.assert_allclose(gradient[~held], 0.0, atol=1e-6)
