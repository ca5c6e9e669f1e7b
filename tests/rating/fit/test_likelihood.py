from collections.abc import Callable

import numpy as np
import pytest
from app.rating.fit.partition import Partition
from scipy.optimize import approx_fprime

from app.rating.fit.likelihood import Likelihood, laplacian
from app.rating.fit.rows import CHUNK
from app.rating.simulation.worlds import SimulatedVotes, simulate_votes
from app.rating.votes.cells import Cells

MODELS, ANNOTATORS = 5, 4


@pytest.fixture
def likelihood(cells_of: Callable[[SimulatedVotes], Cells]) -> Likelihood:
    votes = simulate_votes(3, n_models=MODELS, roles={"honest": ANNOTATORS - 1, "flip": 1}, votes_each=30)
    return Likelihood(cells_of(votes), prior_sd=0.7)


def point() -> np.ndarray:
    generator = np.random.default_rng(1)
    return np.concatenate([generator.normal(size=MODELS), generator.normal(0.5, 1.0, ANNOTATORS)])


def cross_block(likelihood: Likelihood, cross: np.ndarray) -> np.ndarray:
    ((_, rows),) = likelihood.rows.chunks((0, ANNOTATORS), cross, np.ones(ANNOTATORS))
    return rows


def value(likelihood: Likelihood, z: np.ndarray) -> float:
    """Minus the log-likelihood plus the prior."""
    theta = z[MODELS:]
    return float(np.sum((theta - 1) ** 2)) / (2 * 0.7**2) - likelihood.log_likelihood(z[:MODELS], theta)


def gradient(likelihood: Likelihood, z: np.ndarray) -> np.ndarray:
    at = likelihood.expand(z[:MODELS], z[MODELS:])
    return np.concatenate([at.gradient_scores, at.gradient_abilities])


def test_gradient_agrees_with_finite_differences(likelihood: Likelihood) -> None:
    z = point()
    numeric = approx_fprime(z, lambda z: value(likelihood, z), 1e-7)
    np.testing.assert_allclose(gradient(likelihood, z), numeric, rtol=1e-4, atol=1e-4)


def test_exact_hessian_agrees_with_finite_differences_of_the_gradient(likelihood: Likelihood) -> None:
    z = point()
    numeric = np.array([approx_fprime(z, lambda z, i=i: gradient(likelihood, z)[i], 1e-7) for i in range(len(z))])
    at = likelihood.expand(z[:MODELS], z[MODELS:])
    B = cross_block(likelihood, at.cross)
    np.testing.assert_allclose(np.block([[at.A, B.T], [B, np.diag(at.D)]]), numeric, rtol=1e-4, atol=1e-3)


def test_fisher_hessian_is_the_expectation_of_the_exact_one(likelihood: Likelihood) -> None:
    """With s at its expectation n·p the two differ by nothing."""
    z = point()
    R, theta = z[:MODELS], z[MODELS:]
    c = likelihood.cells
    x = theta[c.annotator] * (R[c.model_a] - R[c.model_b])
    expected = Cells(c.annotator, c.model_a, c.model_b, c.n, c.n / (1 + np.exp(-x)), c.ties, ANNOTATORS, MODELS)
    exact = Likelihood(expected, 0.7).expand(R, theta)
    part = Partition(c, np.zeros(ANNOTATORS, dtype=np.int64), 1, 0.7, np.inf)
    part.begin(theta)
    fisher = part.expand(R, np.zeros(1), exact=False)
    np.testing.assert_allclose(exact.A, laplacian(fisher.stiffness, MODELS), rtol=1e-12)
    np.testing.assert_allclose(exact.cross, part.arrow.point.cross, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(exact.D, part.arrow.D, rtol=1e-12)


def test_the_expanded_value_is_the_objective(likelihood: Likelihood) -> None:
    z = point()
    at = likelihood.expand(z[:MODELS], z[MODELS:])
    assert at.value == pytest.approx(value(likelihood, z), rel=1e-12)


def test_partitions_add_up(cells_of: Callable[[SimulatedVotes], Cells]) -> None:
    cells = cells_of(simulate_votes(4, n_models=6, roles={"honest": 30}, votes_each=20))
    generator = np.random.default_rng(0)
    R, theta = generator.normal(size=6), generator.normal(size=30)
    one, three = (Likelihood(cells, 1.0, parts=parts) for parts in (1, 3))
    assert len(three.rows.parts) == 3
    left, right = one.expand(R, theta), three.expand(R, theta)
    np.testing.assert_allclose(left.A, right.A, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(left.gradient_scores, right.gradient_scores, atol=1e-11)
    np.testing.assert_array_equal(left.D, right.D)
    assert left.value == pytest.approx(right.value, rel=1e-12)
    scale = np.ones(30)
    np.testing.assert_allclose(one.rows.products(left.cross, scale), three.rows.products(left.cross, scale), atol=1e-10)


def test_scattered_and_dense_products_agree(cells_of: Callable[[SimulatedVotes], Cells]) -> None:
    cells = cells_of(simulate_votes(4, n_models=40, roles={"honest": 30}, votes_each=10))
    rows = Likelihood(cells, 1.0).rows
    generator = np.random.default_rng(0)
    left, right = generator.normal(size=(2, len(cells.n)))
    scale, other = generator.normal(size=(2, 30))
    both = []
    for dense in (True, False):
        rows._dense = np.full(30, dense)
        both.append((rows.products(left, scale), rows.products(left, scale, right, other)))
    np.testing.assert_allclose(both[0], both[1], atol=1e-11)


def test_rough_products_of_many_rows_have_the_error_of_single_precision(
    cells_of: Callable[[SimulatedVotes], Cells],
) -> None:
    cells = cells_of(simulate_votes(4, n_models=6, roles={"honest": CHUNK}, votes_each=2))
    rows, scale = Likelihood(cells, 1.0, parts=1).rows, np.ones(CHUNK)
    weight = np.random.default_rng(0).normal(size=len(cells.n))
    whole, rough = rows.products(weight, scale), rows.products(weight, scale, rough=True)
    size = np.sqrt(np.outer(np.diag(whole), np.diag(whole)))
    assert 1e-12 < np.max(np.abs(rough - whole) / size) < 1e-5


def test_single_votes_share_logarithms_whatever_they_weigh(likelihood: Likelihood) -> None:
    """Cells of weight 1, of one weight in a row, of different ones, and of several votes."""
    c, z = likelihood.cells, point()
    factor = np.array([1.0, 0.5, 0.5, 0.25, 3.0])[np.arange(len(c.n)) % 5] / c.n
    weighed = Likelihood(
        Cells(c.annotator, c.model_a, c.model_b, c.n * factor, c.s * factor, c.ties * factor, ANNOTATORS, MODELS), 0.7
    )
    assert weighed.expand(z[:MODELS], z[MODELS:]).value == pytest.approx(value(weighed, z), rel=1e-12)


def test_extreme_scores_overflow_nothing(likelihood: Likelihood) -> None:
    R = np.array([-1e4, -1.0, 0.0, 1.0, 1e4])
    at = likelihood.expand(R, np.ones(ANNOTATORS))
    assert np.isfinite(at.value)
    assert np.isfinite(at.gradient_scores).all()
    assert np.isfinite(at.A).all()
