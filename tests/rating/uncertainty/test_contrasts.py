import numpy as np
import pytest
from scipy.stats import norm, studentized_range

from app.rating.uncertainty.ranks import (
    contrast_errors,
    pairwise_confidence,
    simultaneous_ranks,
    win_probabilities,
)


def test_win_probabilities_of_a_known_difference() -> None:
    R, covariance = np.array([np.log(3.0), 0.0]), np.array([[0.04, 0.01], [0.01, 0.02]])
    every = np.arange(2)
    errors = contrast_errors(covariance, every[:, None], every)
    result = win_probabilities(R[:, None] - R, 1.96 * errors)
    half = 1.96 * np.sqrt(0.04 + 0.02 - 2 * 0.01)
    assert result.probability[0, 1] == pytest.approx(0.75)
    assert result.lower[0, 1] == pytest.approx(1 / (1 + np.exp(half) / 3))
    np.testing.assert_allclose(result.probability + result.probability.T, 1.0)
    np.testing.assert_allclose(result.lower + result.upper.T, 1.0)
    assert errors[0, 1] == pytest.approx(0.2)


def all_pairs(covariance: np.ndarray) -> np.ndarray:
    """Half the widths of intervals of all differences at once."""
    every = np.arange(len(covariance))
    level = pairwise_confidence(0.95, len(covariance))
    half: np.ndarray = norm.ppf(0.5 + level / 2) * contrast_errors(covariance, every[:, None], every)
    return half


def test_simultaneous_ranks_are_hardly_wider_than_the_studentized_range() -> None:
    """Independent equal errors: all differences at once are Tukey's problem, whose quantile is known."""
    n = 8
    tukey = studentized_range.ppf(0.95, n, np.inf)
    for factor, separated in ((1.05, True), (0.99, False)):
        R = np.zeros(n)
        R[0] = factor * tukey
        best, worst = simultaneous_ranks(R, all_pairs(np.eye(n)))
        assert bool(worst[0] == 1) is separated
        assert best[0] == 1
        assert (best[1:] == (2 if separated else 1)).all()
    assert tukey > norm.ppf(0.975) * np.sqrt(2)


def test_all_true_ranks_are_covered_at_once() -> None:
    generator = np.random.default_rng(0)
    truth = np.arange(6.0)[::-1] * 0.8
    misses = 0
    for _ in range(200):
        best, worst = simultaneous_ranks(truth + generator.normal(size=6), all_pairs(np.eye(6)))
        misses += not np.all((best <= np.arange(1, 7)) & (np.arange(1, 7) <= worst))
    assert misses <= 20  # 5 % expected at most; 20 of 200 has probability 0.003


def test_models_without_error_between_them_stay_together() -> None:
    best, worst = simultaneous_ranks(np.array([1.0, 0.0]), np.zeros((2, 2)))
    assert best.tolist() == [1, 1]
    assert worst.tolist() == [2, 2]
