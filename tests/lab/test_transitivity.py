import numpy as np
import pytest

from app.lab.transitivity import RATINGS, SCENARIOS, rate_scenarios, simulate_scenario


def test_battles_have_the_win_rates_of_the_scenario() -> None:
    votes = simulate_scenario("A≫B, B≈C", 0, strong=0.75, close=0.51, closed=True)
    rates = votes.outcome.reshape(3, 1000).mean(axis=1)
    odds = 3 * 0.51 / 0.49
    np.testing.assert_allclose(rates, [0.75, 0.51, odds / (1 + odds)], atol=0.05)
    far = simulate_scenario("A≫B, B≫C", 0, strong=0.75, closed=True).outcome[2000:]
    assert far.mean() == pytest.approx(0.9, abs=0.03)
    assert simulate_scenario("A≫B, B≈C", 0).n_votes == 2000
    assert np.bincount(votes.annotator).tolist() == [150] * 20


def test_a_small_k_puts_c_above_b_where_b_lost_to_a_strong_a() -> None:
    """Elo at K = 1 has not moved far enough after 2,000 battles: B still pays for A, C gains from B's low rating."""
    rows = {(row.scenario, row.rating): row for row in rate_scenarios(range(10))}
    assert len(rows) == len(SCENARIOS) * len(RATINGS)
    slow = rows["A≫B, B≈C", "elo K=1 N=100"]
    assert slow.b is not None
    assert slow.c is not None
    assert slow.c > slow.b + 10
    assert slow.true_order == 0.0
    assert slow.a_above_c == 1.0
    for scenario in SCENARIOS:
        joint = rows[scenario, "m-elo"]
        assert joint.order_of_votes == 1.0  # a chain of battles leaves m-ELO nothing to trade off
        assert joint.a is not None
        assert joint.b is not None
        assert joint.c is not None
        assert joint.a + joint.b + joint.c == pytest.approx(3 * 1400)
    assert all(rows["A≫B, B≫C", rating].true_order == 1.0 for rating in RATINGS)
