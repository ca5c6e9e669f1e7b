import math

import numpy as np
import pytest

from stable_arena_lab.bernoulli import BATTLES, INITIAL, compare_settings, simulate_pair, trace_scores


def test_the_battles_have_the_win_rate() -> None:
    rates = [simulate_pair(0.65, BATTLES, seed).outcome.mean() for seed in range(40)]
    assert np.mean(rates) == pytest.approx(0.65, abs=0.01)  # 4 standard errors
    assert set(simulate_pair(0.65, BATTLES, 0).outcome) == {0.0, 1.0}


def test_ties_are_one_outcome_of_three() -> None:
    """Elo Uncovered's appendix A: a tie is half a win, so ties draw the scores together."""
    outcome = simulate_pair(0.75, 20_000, 0, ties=0.4).outcome
    assert [np.mean(outcome == W) for W in (1.0, 0.5, 0.0)] == pytest.approx([0.45, 0.4, 0.15], abs=0.014)  # 4 errors
    (without,), (tied,) = (
        compare_settings(0, ties=ties, win_rates=(0.75,), k_factors=(16.0,), permutations=(100,)) for ties in (0.0, 0.4)
    )
    share = 0.4 / 2 + 0.6 * 0.75
    assert tied.of_votes == pytest.approx(400 * math.log10(share / (1 - share)), abs=40)
    assert tied.difference == pytest.approx(tied.of_votes, abs=15)
    assert tied.difference < without.difference - 50


def test_averages_settle_where_k_puts_them() -> None:
    """A large K reaches the votes' difference and is noisy by order; K = 1 has not arrived after 1,000 battles."""
    rows = {(row.k, row.permutations): row for row in compare_settings(0, win_rates=(0.75,), k_factors=(1.0, 32.0))}
    share = simulate_pair(0.75, BATTLES, 0).outcome.mean()
    assert rows[32.0, 1000].of_votes == pytest.approx(400 * math.log10(share / (1 - share)))
    assert rows[32.0, 1000].difference == pytest.approx(rows[32.0, 1000].of_votes, abs=15)
    assert rows[1.0, 1000].difference < rows[1.0, 1000].of_votes - 5
    assert rows[32.0, 1].sd > 10 * rows[1.0, 1].sd
    for k in (1.0, 32.0):
        few, many = rows[k, 10], rows[k, 1000]
        assert few.sem is not None
        assert many.sem == pytest.approx(many.sd / math.sqrt(1000))
        assert abs(few.difference - many.difference) < 5 * few.sem
    assert rows[32.0, 1].sem is None


def test_one_order_can_put_the_worse_first_and_an_average_does_not() -> None:
    rows = {row.permutations: row for row in compare_settings(2, win_rates=(0.55,), k_factors=(32.0,))}
    assert rows[1].of_votes > 0
    assert rows[1].wrong > 0.1
    assert rows[100].wrong == 0.0


def test_a_trajectory_ends_at_the_score() -> None:
    points = [p for p in trace_scores(3, win_rates=(0.6,), permutations=(1, 50)) if p.battles == BATTLES]
    ends = compare_settings(3, win_rates=(0.6,), k_factors=(16.0,), permutations=(1, 50))
    share = simulate_pair(0.6, BATTLES, 3).outcome.mean()
    assert [point.won for point in points] == pytest.approx([share, share])
    assert [2 * (point.score - INITIAL) for point in points] == pytest.approx([end.difference for end in ends])
