import numpy as np
import pytest
from scipy.stats import norm

from app.rating.verdict.confidence import rank_probabilities
from tests.fixtures.joint_scores import joint_of


def test_two_models_are_a_normal_difference() -> None:
    joint = joint_of([20.0, 0.0], np.array([[300.0, 50.0], [50.0, 200.0]]))
    within = rank_probabilities(joint, 2)
    assert within[0, 0] == pytest.approx(norm.cdf(20 / np.sqrt(400.0)), abs=0.015)
    np.testing.assert_allclose(within.sum(axis=0), [1.0, 2.0])
    np.testing.assert_allclose(within[:, 1], 1.0)


def test_the_joint_errors_count_not_the_intervals() -> None:
    """All scores share an error that is far larger than their distances: the order is known."""
    within = rank_probabilities(joint_of([3.0, 2.0, 1.0], np.full((3, 3), 1e4) + 0.01 * np.eye(3)), 1)
    np.testing.assert_allclose(within[:, 0], [1.0, 0.0, 0.0], atol=1e-3)


def test_probabilities_of_independent_scores() -> None:
    """P(best) = ∫ φ(x) Π_j Φ((x + S_i − S_j)/…), by numerical integration."""
    score, sd = np.array([30.0, 20.0, 5.0, 0.0]), 20.0
    x = np.linspace(-200, 250, 20_001)
    density = norm.pdf(x[:, None], score, sd)
    below = norm.cdf(x[:, None], score, sd)
    best = [np.trapezoid(density[:, i] * np.prod(np.delete(below, i, axis=1), axis=1), x) for i in range(4)]
    within = rank_probabilities(joint_of(score.tolist(), np.eye(4) * sd**2), 2)
    np.testing.assert_allclose(within[:, 0], best, atol=0.015)
    assert (within[:, 1] >= within[:, 0]).all()


def test_few_annotators_leave_more_open() -> None:
    certain, doubtful = (
        rank_probabilities(joint_of([20.0, 0.0], np.eye(2) * 100.0, freedom), 1)[0, 0] for freedom in (np.inf, 3.0)
    )
    assert 0.5 < doubtful < certain - 0.05


def test_the_same_votes_give_the_same_numbers() -> None:
    joint = joint_of([20.0, 0.0, -3.0], np.eye(3) * 100.0)
    np.testing.assert_array_equal(rank_probabilities(joint, 2), rank_probabilities(joint, 2))


def test_models_that_are_equal_without_error_share_the_ranks() -> None:
    """As where every vote is a tie."""
    within = rank_probabilities(joint_of([0.0] * 4, np.zeros((4, 4))), 4)
    np.testing.assert_allclose(within, np.tile([0.25, 0.5, 0.75, 1.0], (4, 1)), atol=0.015)
