from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from app.lab.simulate import SimulatedVotes, simulate_votes
from app.rating.data.votes import Cells, aggregate
from app.rating.inference.covariance import Covariance, covariance
from app.rating.inference.estimate import estimate
from app.rating.loop.round import run_round
from app.rating.settings import LoopSettings
from app.rating.solver.fit import fit_am_elo, fit_m_elo
from app.rating.solver.likelihood import Likelihood

MakeCells = Callable[[SimulatedVotes], Cells]
PLAIN: Any = {"prior_sd": None, "ability_cap": None}


def numeric_covariance(votes: SimulatedVotes, kind: str) -> np.ndarray:
    """Sum of squared influences, by nudging the weight of one vote or annotator after the other and fitting again."""
    cells = aggregate(votes.annotator, votes.model_a, votes.model_b, votes.outcome, **votes.sizes)
    component = np.zeros(cells.n_models, dtype=np.int64)
    full = fit_am_elo(cells, component, **PLAIN)
    unit = votes.annotator if kind == "clustered" else np.arange(len(votes.annotator))
    units = np.unique(unit)
    draws = []
    for each in units:
        weight = np.where(unit == each, 1e-3, 0.0) + 1.0
        nudged = aggregate(votes.annotator, votes.model_a, votes.model_b, votes.outcome, weight=weight, **votes.sizes)
        fit = fit_am_elo(nudged, component, start=(full.R, full.theta), **PLAIN)
        draws.append((fit.R - full.R) / 1e-3)
    influence = np.array(draws)
    factor = len(units) / (len(units) - 1) if kind == "clustered" else 1.0
    result: np.ndarray = influence.T @ influence * factor
    return result


@pytest.mark.parametrize("kind", ["clustered", "sandwich"])
def test_sandwiches_are_the_sum_of_squared_influences(cells_of: MakeCells, kind: Any) -> None:
    """Where no annotator supplies more than a twentieth of the information on a model."""
    votes = simulate_votes(11, n_models=4, roles={"honest": 60}, votes_each=25)
    cells = cells_of(votes)
    component = np.zeros(4, dtype=np.int64)
    fit = fit_am_elo(cells, component, **PLAIN)
    ours = covariance(cells, fit, component, kind=kind, prior_sd=None, abilities=True)
    assert ours.kind == kind
    np.testing.assert_allclose(ours.scores, numeric_covariance(votes, kind), rtol=0.03, atol=1e-5)


def test_information_is_the_inverse_of_the_joint_hessian_with_abilities_profiled_out(cells_of: MakeCells) -> None:
    cells = cells_of(simulate_votes(12, n_models=5, roles={"honest": 8}, votes_each=60))
    component = np.zeros(5, dtype=np.int64)
    fit = fit_am_elo(cells, component, prior_sd=1.0, ability_cap=None)
    likelihood = Likelihood(cells, 1.0)
    at = likelihood.expand(fit.R, fit.theta)
    ((_, B),) = likelihood.rows.chunks((0, 8), at.cross, np.ones(8))
    t = np.tanh((fit.theta - 1) / 0.3)
    v = 1 - t**2
    price = -(at.gradient_abilities @ (v / at.D)) / (v @ (v / at.D))
    D = at.D + price * -2 * t * v / 0.3  # the constraint's own curvature
    shift, unit = np.append(np.ones(5), np.zeros(8)), np.append(np.zeros(5), v)
    border = np.column_stack([shift, unit])
    joint = np.block([[at.A, B.T], [B, np.diag(D)]])
    covariance_of_both = np.linalg.inv(np.block([[joint, border], [border.T, np.zeros((2, 2))]]))[:13, :13]
    ours = covariance(cells, fit, component, kind="information", prior_sd=1.0, abilities=True)
    np.testing.assert_allclose(ours.scores, covariance_of_both[:5, :5], rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(ours.ability_se**2, np.diag(covariance_of_both)[5:], rtol=1e-6)


def test_clustered_errors_agree_with_a_bootstrap_by_annotator(cells_of: MakeCells) -> None:
    """After aligning scales: drawing other annotators also draws another typical annotator, the unit of the scores."""
    votes = simulate_votes(13, n_models=6, roles={"honest": 60, "random": 6}, votes_each=60, ability_sd=0.5)
    cells = cells_of(votes)
    fit = fit_am_elo(cells, np.zeros(6, dtype=np.int64))
    ours = covariance(cells, fit, np.zeros(6, dtype=np.int64), kind="clustered", prior_sd=1.0, abilities=True).scores
    generator = np.random.default_rng(0)
    draws = []
    for _ in range(300):
        times = np.bincount(generator.integers(0, 66, 66), minlength=66)
        drawn = estimate(_draw(cells, times), LoopSettings(min_votes=0, interval="none")).solution.fit.R
        draws.append(drawn * (fit.R @ fit.R) / (drawn @ fit.R))
    across = np.eye(6) - np.outer(fit.R, fit.R) / (fit.R @ fit.R)
    ratio = np.sqrt(np.diag(across @ ours @ across.T)) / np.std(draws, axis=0, ddof=1)
    assert np.all((ratio > 0.8) & (ratio < 1.2)), ratio


def _draw(cells: Cells, times: np.ndarray) -> Cells:
    """An annotator drawn twice is two annotators with the same votes, each with an ability of their own."""
    copies = [cells.where(times[cells.annotator] > copy) for copy in range(int(times.max()))]
    annotator = np.concatenate([part.annotator + cells.n_annotators * i for i, part in enumerate(copies)])
    rest = (np.concatenate([getattr(part, x) for part in copies]) for x in ("model_a", "model_b", "n", "s", "ties"))
    return Cells(annotator, *rest, cells.n_annotators * len(copies), cells.n_models)


def test_few_annotators_fall_back_to_the_plain_sandwich_and_say_so(cells_of: MakeCells) -> None:
    rating = run_round(cells_of(simulate_votes(1, n_models=4, roles={"honest": 19})), LoopSettings()).rating
    assert rating.diagnostics.interval == "sandwich"
    assert any("needs 20 annotators: there are 19" in notice.detail for notice in rating.diagnostics.warnings)
    enough = run_round(cells_of(simulate_votes(1, n_models=4, roles={"honest": 20})), LoopSettings()).rating
    assert enough.diagnostics.interval == "clustered"
    assert enough.diagnostics.warnings == ()


def test_critical_values() -> None:
    nothing = np.zeros((1, 1))
    clustered = Covariance(nothing, np.zeros(1), "clustered", 21)
    assert clustered.critical_value(0.95) == pytest.approx(2.0860, abs=1e-4)  # t with 20 degrees of freedom
    assert Covariance(nothing, np.zeros(1), "sandwich", 21).critical_value(0.95) == pytest.approx(1.95996, abs=1e-5)


def test_m_elo_sandwich_of_a_well_specified_model_is_near_the_information(cells_of: MakeCells) -> None:
    votes = simulate_votes(2, n_models=5, roles={"honest": 40}, votes_each=400, ability_sd=0.0, tie_share=0.0)
    cells = cells_of(votes)
    component = np.zeros(5, dtype=np.int64)
    fit = fit_m_elo(cells, component)
    se = {
        kind: np.sqrt(np.diag(covariance(cells, fit, component, kind=kind, prior_sd=None, abilities=False).scores))
        for kind in ("information", "sandwich", "clustered")
    }
    np.testing.assert_allclose(se["sandwich"], se["information"], rtol=0.05)
    np.testing.assert_allclose(se["clustered"], se["information"], rtol=0.5)


def test_an_anchor_shifts_the_scores_and_leaves_the_intervals_as_wide(cells_of: MakeCells) -> None:
    cells = cells_of(simulate_votes(3, n_models=5, roles={"honest": 30}))
    free = run_round(cells, LoopSettings()).rating
    anchored = run_round(cells, LoopSettings(anchor=(2, 1234.0))).rating
    assert anchored.models.score[2] == pytest.approx(1234.0)
    np.testing.assert_allclose(np.diff(anchored.models.score), np.diff(free.models.score), rtol=1e-12)
    np.testing.assert_array_equal(anchored.models.se, free.models.se)
    np.testing.assert_allclose(anchored.models.upper - anchored.models.lower, free.models.upper - free.models.lower)
