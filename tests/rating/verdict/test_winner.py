import numpy as np
import pytest
from scipy.stats import norm

from app.rating.verdict.winner import adjust_winner, simultaneous_multiple


def test_a_winner_far_ahead_keeps_its_score_and_interval() -> None:
    found = adjust_winner(np.array([500.0, 0.0, 10.0]), np.eye(3) * 100.0)
    assert found.index == 0
    assert found.score == pytest.approx(500.0, abs=0.2)
    half = norm.ppf(0.975) * 10.0
    assert found.lower == pytest.approx(500.0 - half, rel=0.01)
    assert found.upper == pytest.approx(500.0 + half, rel=0.01)


def test_a_narrow_winner_is_taken_down() -> None:
    wide, narrow = (adjust_winner(np.array([10.0, other]), np.eye(2) * 100.0) for other in (0.0, 9.0))
    assert narrow.score < wide.score < 10.0
    assert narrow.lower < wide.lower
    assert narrow.upper <= 10.0 + norm.ppf(0.975) * 10.0 + 0.5


def test_the_ends_solve_the_truncated_distribution() -> None:
    """Against probabilities by counting draws that come out as these did."""
    score, covariance = np.array([6.0, 2.0]), np.array([[9.0, 2.0], [2.0, 4.0]])
    found = adjust_winner(score, covariance)
    slope = covariance[1, 0] / covariance[0, 0]
    bottom = (score[1] - slope * score[0]) / (1 - slope)  # above it the first is the best
    draws = found.score + 3.0 * np.random.default_rng(0).standard_normal(1_000_000)
    around = simultaneous_multiple(covariance, 0.005) * 3.0
    kept = draws[(draws > max(bottom, found.score - around)) & (draws < found.score + around)]
    assert np.mean(kept > 6.0) == pytest.approx(0.5, abs=0.005)


def test_a_winner_by_a_variable_score_may_be_cut_off_above() -> None:
    """A variant whose error moves with the winner's, and more, would be ahead if the winner's score were higher."""
    covariance = np.array([[1.0, 1.8], [1.8, 4.0]])
    free, cut = (adjust_winner(np.array([10.0, other]), covariance) for other in (-50.0, 9.9))
    assert cut.upper > free.upper
    assert cut.score > free.score


def test_no_error_needs_no_adjustment() -> None:
    found = adjust_winner(np.array([3.0, 5.0]), np.zeros((2, 2)))
    assert (found.index, found.score, found.lower, found.upper) == (1, 5.0, 5.0, 5.0)


def test_the_winner_of_equal_variants_is_covered() -> None:
    """The usual interval of the best of five equal variants holds the truth too seldom, this one does not."""
    generator, runs = np.random.default_rng(2), 150
    adjusted = usual = below = 0
    for _ in range(runs):
        score = 10.0 * generator.standard_normal(5)
        found = adjust_winner(score, np.eye(5) * 100.0)
        adjusted += found.lower <= 0.0 <= found.upper
        usual += abs(score.max()) <= 19.6
        below += found.score <= 0.0
    assert adjusted / runs >= 0.91
    assert below / runs == pytest.approx(0.5, abs=0.12)
    assert usual / runs < 0.91


def test_a_single_variant_was_not_chosen() -> None:
    found = adjust_winner(np.array([7.0]), np.array([[4.0]]))
    assert found.score == pytest.approx(7.0, abs=0.05)
    assert found.upper - found.lower == pytest.approx(2 * norm.ppf(0.975) * 2.0, rel=0.02)
