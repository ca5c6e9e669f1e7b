from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from app.lab.simulate import SimulatedVotes, simulate_votes
from app.rating.likelihood import Likelihood
from app.rating.votes import Cells

MODELS, ANNOTATORS = 5, 4


@pytest.fixture
def likelihood(cells_of: Callable[[SimulatedVotes], Cells]) -> Likelihood:
    votes = simulate_votes(3, n_models=MODELS, roles={"honest": ANNOTATORS - 1, "flip": 1}, votes_each=30)
    return Likelihood(cells_of(votes), prior_sd=0.7)


def point() -> np.ndarray:
    generator = np.random.default_rng(1)
    return np.concatenate([generator.normal(size=MODELS), generator.normal(0.5, 1.0, ANNOTATORS)])


def gradient(likelihood: Likelihood, z: np.ndarray) -> np.ndarray:
    at = likelihood.expand(z[:MODELS], z[MODELS:], exact=True)
    return np.concatenate([at.gradient_scores, at.gradient_abilities])


def test_gradient_agrees_with_finite_differences(likelihood: Likelihood) -> None:
    z = point()
    numeric = approx_fprime(z, lambda z: likelihood.value(z[:MODELS], z[MODELS:]), 1e-7)
    np.testing.assert_allclose(gradient(likelihood, z), numeric, rtol=1e-4, atol=1e-4)


def test_exact_hessian_agrees_with_finite_differences_of_the_gradient(likelihood: Likelihood) -> None:
    z = point()
    numeric = np.array([approx_fprime(z, lambda z, i=i: gradient(likelihood, z)[i], 1e-7) for i in range(len(z))])
    at = likelihood.expand(z[:MODELS], z[MODELS:], exact=True)
    B = at.B.toarray()
    np.testing.assert_allclose(np.block([[at.A, B.T], [B, np.diag(at.D)]]), numeric, rtol=1e-4, atol=1e-3)


def test_fisher_hessian_is_the_expectation_of_the_exact_one(likelihood: Likelihood) -> None:
    """With s at its expectation n·p the two differ by nothing."""
    z = point()
    R, theta = z[:MODELS], z[MODELS:]
    c = likelihood.cells
    x = theta[c.annotator] * (R[c.model_a] - R[c.model_b])
    expected = Cells(c.annotator, c.model_a, c.model_b, c.n, c.n / (1 + np.exp(-x)), c.ties, ANNOTATORS, MODELS)
    at = Likelihood(expected, 0.7)
    exact, fisher = at.expand(R, theta, exact=True), likelihood.expand(R, theta, exact=False)
    np.testing.assert_allclose(exact.A, fisher.A, rtol=1e-12)
    np.testing.assert_allclose(exact.B.toarray(), fisher.B.toarray(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(exact.D, fisher.D, rtol=1e-12)


def test_value_is_minus_log_likelihood_plus_prior(likelihood: Likelihood) -> None:
    z = point()
    R, theta = z[:MODELS], z[MODELS:]
    prior = np.sum((theta - 1) ** 2) / (2 * 0.7**2)
    assert likelihood.value(R, theta) == pytest.approx(prior - likelihood.log_likelihood(R, theta), rel=1e-12)
    assert likelihood.expand(R, theta, exact=True).value == pytest.approx(likelihood.value(R, theta), rel=1e-12)


def test_extreme_scores_overflow_nothing(likelihood: Likelihood) -> None:
    R = np.array([-1e4, -1.0, 0.0, 1.0, 1e4])
    at = likelihood.expand(R, np.ones(ANNOTATORS), exact=True)
    assert np.isfinite(at.value)
    assert np.isfinite(at.gradient_scores).all()
    assert np.isfinite(at.A).all()
