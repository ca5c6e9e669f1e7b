import numpy as np
import pytest

from stable_arena_lab.transitivity import (
    ELO_SETTINGS,
    RATINGS,
    SCENARIOS,
    SHOWN_K,
    SHOWN_N,
    rate_scenarios,
    simulate_scenario,
    tabulate_scores,
)


def test_battles_have_the_win_rates_of_the_scenario() -> None:
    votes = simulate_scenario("A≫B, B≈C", 0, closed=True)
    rates = votes.outcome.reshape(3, 1000).mean(axis=1)
    odds = 3 * 0.51 / 0.49
    np.testing.assert_allclose(rates, [0.75, 0.51, odds / (1 + odds)], atol=0.05)
    far = simulate_scenario("A≫B, B≫C", 0, closed=True).outcome[2000:]
    assert far.mean() == pytest.approx(0.9, abs=0.03)
    close = [simulate_scenario("A≈B, B≈C", seed).outcome.reshape(2, 1000).mean(axis=1) for seed in range(40)]
    np.testing.assert_allclose(np.mean(close, axis=0), [0.54, 0.51], atol=0.01)  # 4 standard errors
    assert simulate_scenario("A≫B, B≈C", 0).n_votes == 2000
    assert np.bincount(votes.annotator).tolist() == [150] * 20


def test_the_scores_of_the_papers_table() -> None:
    """The paper's B and C in this cell are 1342.7 and 1361.4: the scores of any data set lie near them."""
    cells = {(c.scenario, c.model, c.k, c.permutations): c for c in tabulate_scores(1)}
    assert len(cells) == len(SCENARIOS) * 3 * len(SHOWN_K) * len(SHOWN_N)
    assert set(ELO_SETTINGS) <= {(k, count) for _, _, k, count in cells}
    b, c = cells["A≫B, B≈C", "B", 1.0, 100], cells["A≫B, B≈C", "C", 1.0, 100]
    assert (b.score, c.score) == (pytest.approx(1342.7, abs=15), pytest.approx(1361.4, abs=15))
    assert b.sem is not None
    assert 0.2 < b.sem < 1.0
    assert cells["A≫B, B≈C", "B", 1.0, 1].sem is None
    for scenario in SCENARIOS:
        assert sum(cells[scenario, model, 16.0, 100].score for model in "ABC") == pytest.approx(3 * 1400)


def test_a_small_k_puts_c_above_b_where_b_lost_to_a_strong_a() -> None:
    """Elo at K = 1 has not moved far enough after 2,000 battles: B still pays for A, C gains from B's low rating."""
    rows = {(row.scenario, row.rating): row for row in rate_scenarios(range(4))}
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
