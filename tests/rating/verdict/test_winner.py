import numpy as np
import pytest
from scipy.stats import norm

from app.rating.verdict.winner import adjust_winner


def test_the_interval_reaches_further_down_the_more_variants_there_are() -> None:
    score = np.array([500.0, 0.0, 10.0, -3.0])
    found = adjust_winner(score, np.full(4, 10.0))
    assert found.index == 0
    assert found.upper == pytest.approx(500.0 + 10.0 * norm.ppf(0.975))
    assert found.lower == pytest.approx(500.0 - 10.0 * norm.ppf(1.0 - 0.025 / 4))
    assert found.score == pytest.approx((found.lower + found.upper) / 2.0)
    assert adjust_winner(score, np.full(4, 10.0), confidence=0.5).lower > found.lower


def test_a_single_variant_was_not_chosen() -> None:
    found = adjust_winner(np.array([7.0]), np.array([2.0]))
    assert found.score == pytest.approx(7.0)
    assert found.upper - found.lower == pytest.approx(2 * norm.ppf(0.975) * 2.0)


def test_no_error_needs_no_adjustment() -> None:
    found = adjust_winner(np.array([3.0, 5.0]), np.zeros(2))
    assert (found.index, found.score, found.lower, found.upper) == (1, 5.0, 5.0, 5.0)


@pytest.mark.parametrize("spread", [0.0, 10.0, 30.0])
def test_the_winner_is_covered(spread: float) -> None:
    """The best of variants that are equal, or spread, also where their errors differ and hang together."""
    generator, runs, truth = np.random.default_rng(2), 2_000, -spread * np.arange(5)
    errors = np.array([10.0, 10.0, 5.0, 20.0, 10.0])
    adjusted = usual = 0
    for _ in range(runs):
        noise = np.sqrt(0.7) * generator.standard_normal(5) + np.sqrt(0.3) * generator.standard_normal()
        score = truth + errors * noise
        found = adjust_winner(score, errors)
        adjusted += found.lower <= truth[found.index] <= found.upper
        usual += abs(score[found.index] - truth[found.index]) <= norm.ppf(0.975) * errors[found.index]
    assert adjusted / runs >= 0.945
    if spread == 0.0:
        assert usual / runs < 0.91
