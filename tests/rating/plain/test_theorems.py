"""The am-ELO paper's theorems, on the likelihood written vote by vote: Liu et al., ICML 2025, Theorems 4.1 and 4.2."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.linalg import null_space
from scipy.optimize import approx_fprime, minimize
from scipy.special import expit, log_expit

from app.rating.errors import NoFiniteScoreError
from app.rating.plain.joint import fit_joint
from app.rating.plain.likelihood import Likelihood
from app.rating.plain.m_elo import fit_m_elo
from app.rating.simulation.worlds import SimulatedVotes, simulate_votes
from app.rating.units import papers_gauge
from app.rating.votes.cells import Cells, aggregate

MODELS, ANNOTATORS = 5, 6
CROWD: Any = {"honest": 5, "flip": 1}
SEEDS = range(8)


@pytest.fixture(scope="module")
def votes() -> SimulatedVotes:
    return simulate_votes(4, n_models=MODELS, roles=CROWD, votes_each=100)


@pytest.fixture(scope="module")
def cells(votes: SimulatedVotes) -> Cells:
    return aggregate(votes.annotator, votes.model_a, votes.model_b, votes.outcome, **votes.sizes)


def log_likelihood(votes: SimulatedVotes, R: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Σ over votes of W log P + (1 − W) log(1 − P); R and theta may have more axes behind the first."""
    x = theta[votes.annotator] * (R[votes.model_a] - R[votes.model_b])
    W = votes.outcome.reshape(-1, *[1] * (x.ndim - 1))
    return np.sum(W * log_expit(x) + (1 - W) * log_expit(-x), axis=0)


def joint(votes: SimulatedVotes) -> Callable[[np.ndarray], np.ndarray]:
    return lambda z: log_likelihood(votes, z[:MODELS], z[MODELS:])


def gradient(votes: SimulatedVotes, z: np.ndarray) -> np.ndarray:
    R, theta = z[:MODELS], z[MODELS:]
    d = R[votes.model_a] - R[votes.model_b]
    excess = votes.outcome - expit(theta[votes.annotator] * d)
    pull = theta[votes.annotator] * excess
    by_model = np.bincount(votes.model_a, pull, MODELS) - np.bincount(votes.model_b, pull, MODELS)
    return np.concatenate([by_model, np.bincount(votes.annotator, excess * d, ANNOTATORS)])


def hessian(f: Callable[[np.ndarray], np.ndarray], z: np.ndarray, step: float = 1e-3) -> np.ndarray:
    """Return all second differences of f around z, for f of points along the first axis."""
    along = step * np.eye(len(z))
    i, j = along[:, :, None], along[:, None, :]
    here = z[:, None, None]
    return (f(here + i + j) - f(here + i - j) - f(here - i + j) + f(here - i - j)) / (4 * step**2)


def somewhere(seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.concatenate([generator.normal(0, 1.5, MODELS), generator.normal(0.7, 0.7, ANNOTATORS)])


def in_papers_gauge(R: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """R₀ = 0 and Σθ = 1."""
    return np.concatenate([(R - R[0]) * theta.sum(), papers_gauge(theta)])


@pytest.mark.parametrize("seed", SEEDS)
def test_theorem_4_1_m_elo_is_concave_and_flat_along_the_shift_alone(
    votes: SimulatedVotes, cells: Cells, seed: int
) -> None:
    R, ones = somewhere(seed)[:MODELS], np.ones(ANNOTATORS)
    numeric = hessian(lambda z: log_likelihood(votes, z, np.broadcast_to(1.0, (ANNOTATORS, *z.shape[1:]))), R)
    np.testing.assert_allclose(-Likelihood(cells).expand(R, ones).A, numeric, atol=1e-4)
    curvature = np.linalg.eigvalsh(numeric)
    assert curvature[-1] == pytest.approx(0.0, abs=1e-4)
    assert curvature[-2] < -1.0
    np.testing.assert_allclose(numeric @ np.ones(MODELS), 0.0, atol=1e-4)


def test_theorem_4_1_every_start_ends_at_one_maximum(votes: SimulatedVotes, cells: Cells) -> None:
    R, ones = fit_m_elo(cells).R, np.ones(ANNOTATORS)
    np.testing.assert_allclose(approx_fprime(R, lambda z: float(log_likelihood(votes, z, ones))), 0.0, atol=1e-4)
    for seed in SEEDS:
        start = 3.0 * somewhere(seed)[:MODELS]
        ascent = minimize(lambda z: -log_likelihood(votes, z, ones), start, method="BFGS")
        np.testing.assert_allclose(ascent.x - ascent.x.mean(), R, atol=1e-4)


def test_theorem_4_1_needs_wins_in_both_directions_between_all_models(votes: SimulatedVotes) -> None:
    """Where models 0 and 1 win all votes against the others, moving both up raises the likelihood without end."""
    best = np.isin(votes.model_a, (0, 1)), np.isin(votes.model_b, (0, 1))
    outcome = np.where(best[0] & ~best[1], 1.0, np.where(best[1] & ~best[0], 0.0, votes.outcome))
    split = replace(votes, outcome=outcome)
    cells = aggregate(split.annotator, split.model_a, split.model_b, split.outcome, **split.sizes)
    with pytest.raises(NoFiniteScoreError):
        fit_m_elo(cells)
    up = np.isin(np.arange(MODELS), (0, 1)).astype(float)
    R, ones = somewhere(0)[:MODELS], np.ones(ANNOTATORS)
    assert np.all(np.diff([log_likelihood(split, R + far * up, ones) for far in range(12)]) > 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_theorem_4_2_am_elo_is_concave_in_scores_and_in_abilities_but_not_in_both(
    votes: SimulatedVotes, cells: Cells, seed: int
) -> None:
    z = somewhere(seed)
    numeric = hessian(joint(votes), z)
    at = Likelihood(cells).expand(z[:MODELS], z[MODELS:])
    np.testing.assert_allclose(-at.A, numeric[:MODELS, :MODELS], atol=1e-3)
    np.testing.assert_allclose(-np.diag(at.D), numeric[MODELS:, MODELS:], atol=1e-3)
    for block in (numeric[:MODELS, :MODELS], numeric[MODELS:, MODELS:]):
        assert np.linalg.eigvalsh(block)[-1] < 1e-3
    assert np.linalg.eigvalsh(numeric)[-1] > 1.0


def test_theorem_4_2_the_scale_is_free_and_the_sum_of_abilities_fixes_it(votes: SimulatedVotes, cells: Cells) -> None:
    """The likelihood is flat along the shift and (R, −θ) alone; with R₀ = 0 and Σθ = 1 the maximum is isolated."""
    fit = fit_joint(cells)
    top = in_papers_gauge(fit.R, fit.theta)
    assert top[MODELS:].sum() == pytest.approx(1.0)
    assert fit.log_likelihood == pytest.approx(joint(votes)(top), rel=1e-12)
    for c in (-2.0, 0.1, 30.0):
        assert log_likelihood(votes, c * top[:MODELS], top[MODELS:] / c) == pytest.approx(fit.log_likelihood, rel=1e-12)
    # in a gauge where scores and abilities are of one size, so that the differences are exact enough
    z = np.concatenate([fit.R, fit.theta])
    curvature, direction = np.linalg.eigh(hessian(joint(votes), z))
    assert np.count_nonzero(np.abs(curvature) < 1e-3) == 2
    assert curvature[-3] < -0.1
    flat = np.array([np.repeat([1.0, 0.0], [MODELS, ANNOTATORS]), np.concatenate([fit.R, -fit.theta])])
    np.testing.assert_allclose(flat @ direction[:, :-2], 0.0, atol=1e-4)
    gauge = np.array([np.eye(MODELS + ANNOTATORS)[0], np.repeat([0.0, 1.0], [MODELS, ANNOTATORS])])
    inside = null_space(gauge)
    assert np.linalg.eigvalsh(inside.T @ hessian(joint(votes), z) @ inside)[-1] < -0.1


def test_theorem_4_2_every_start_with_a_positive_sum_ends_at_one_maximum(votes: SimulatedVotes, cells: Cells) -> None:
    """And every start ends there or at its mirror image, (−R, −θ), which Σθ = 1 turns into it."""
    fit = fit_joint(cells)
    top = in_papers_gauge(fit.R, fit.theta)
    mirrored = 0
    for seed in SEEDS:
        sign = (-1.0) ** seed
        start = np.concatenate([somewhere(seed)[:MODELS], sign * np.abs(somewhere(seed)[MODELS:])])
        ascent = minimize(lambda z: -joint(votes)(z), start, jac=lambda z: -gradient(votes, z), tol=1e-9)
        assert -ascent.fun == pytest.approx(fit.log_likelihood, abs=1e-6)
        R, theta = ascent.x[:MODELS], ascent.x[MODELS:]
        np.testing.assert_allclose(in_papers_gauge(R, theta), top, atol=1e-3)
        mirrored += theta.sum() < 0
    assert 0 < mirrored < len(SEEDS)


def test_theorem_4_2_a_contrary_annotator_has_a_negative_ability(votes: SimulatedVotes, cells: Cells) -> None:
    """The last annotator votes against the ranking: with fixed abilities of 1 these votes would pull it down."""
    ability = papers_gauge(fit_joint(cells).theta)
    assert np.all(ability[:-1] > 0)
    assert ability[-1] < 0
