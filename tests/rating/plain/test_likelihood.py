from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from app.rating.plain.likelihood import Likelihood
from app.rating.simulation.worlds import SimulatedVotes, simulate_votes
from app.rating.votes.cells import Cells

MODELS, ANNOTATORS = 5, 4


@pytest.fixture
def likelihood(cells_of: Callable[[SimulatedVotes], Cells]) -> Likelihood:
    votes = simulate_votes(3, n_models=MODELS, roles={"honest": ANNOTATORS - 1, "flip": 1}, votes_each=30)
    return Likelihood(cells_of(votes))


def point() -> np.ndarray:
    generator = np.random.default_rng(1)
    return np.concatenate([generator.normal(size=MODELS), generator.normal(0.5, 1.0, ANNOTATORS)])


def value(likelihood: Likelihood, z: np.ndarray) -> float:
    return likelihood.value(z[:MODELS], z[MODELS:])


def gradient(likelihood: Likelihood, z: np.ndarray) -> np.ndarray:
    at = likelihood.expand(z[:MODELS], z[MODELS:])
    return np.concatenate([at.gradient_scores, at.gradient_abilities])


def test_gradient_agrees_with_finite_differences(likelihood: Likelihood) -> None:
    z = point()
    numeric = approx_fprime(z, lambda z: value(likelihood, z), 1e-7)
    np.testing.assert_allclose(gradient(likelihood, z), numeric, rtol=1e-4, atol=1e-4)
    assert likelihood.expand(z[:MODELS], z[MODELS:]).value == pytest.approx(value(likelihood, z), rel=1e-12)


def test_exact_hessian_agrees_with_finite_differences_of_the_gradient(likelihood: Likelihood) -> None:
    z = point()
    numeric = np.array([approx_fprime(z, lambda z, i=i: gradient(likelihood, z)[i], 1e-7) for i in range(len(z))])
    at = likelihood.expand(z[:MODELS], z[MODELS:])
    B = likelihood.rows(at.cross).toarray()
    np.testing.assert_allclose(np.block([[at.A, B.T], [B, np.diag(at.D)]]), numeric, rtol=1e-4, atol=1e-3)


def test_fisher_hessian_is_the_expectation_of_the_exact_one(likelihood: Likelihood) -> None:
    """With s at its expectation n·p the two differ by nothing."""
    R, theta, c = point()[:MODELS], point()[MODELS:], likelihood.cells
    x = theta[c.annotator] * (R[c.model_a] - R[c.model_b])
    expected = Likelihood(replace(c, s=c.n / (1 + np.exp(-x)))).expand(R, theta)
    np.testing.assert_allclose(likelihood.expand(R, theta).expected, expected.cross, rtol=1e-9, atol=1e-12)


def test_rows_add_up_the_cells_of_an_annotator(likelihood: Likelihood) -> None:
    weight = np.random.default_rng(0).normal(size=len(likelihood.cells.n))
    rows, c = np.zeros((2, ANNOTATORS, MODELS)), likelihood.cells
    for k, a, b, w in zip(c.annotator, c.model_a, c.model_b, weight, strict=True):
        rows[:, k, a] += w
        rows[:, k, b] += (-w, w)
    np.testing.assert_allclose(likelihood.rows(weight).toarray(), rows[0], atol=1e-12)
    np.testing.assert_allclose(likelihood.rows(weight, signed=False).toarray(), rows[1], atol=1e-12)
    np.testing.assert_allclose(likelihood.by_model(weight), rows[0].sum(axis=0), atol=1e-12)


def test_extreme_scores_overflow_nothing(likelihood: Likelihood) -> None:
    at = likelihood.expand(np.array([-1e4, -1.0, 0.0, 1.0, 1e4]), np.ones(ANNOTATORS))
    assert np.isfinite(at.value)
    assert np.isfinite(at.gradient_scores).all()
    assert np.isfinite(at.A).all()
