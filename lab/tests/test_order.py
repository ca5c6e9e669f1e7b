import numpy as np
import pytest

from app.rating.plain.elo import fit_elo
from stable_arena_lab.arenas import Arena
from stable_arena_lab.order import play_orders, shuffle_and_rate


@pytest.mark.campaign
def test_the_spread_grows_with_k_and_shrinks_with_the_orders_averaged(arena: Arena) -> None:
    spreads, order_free = shuffle_and_rate(arena, k_factors=[1.0, 4.0, 16.0, 36.0], permutations=[1, 10, 100])
    one = [row for row in spreads if row.permutations == 1]
    assert [row.k for row in one] == [1.0, 4.0, 16.0, 36.0]
    assert [row.sd for row in one] == sorted(row.sd for row in one)
    consistencies = [row.consistency or 0.0 for row in one]
    assert consistencies == sorted(consistencies, reverse=True)
    at_16 = {row.permutations: row for row in spreads if row.k == 16.0}
    assert at_16[100].sd == pytest.approx(at_16[1].sd / 10)
    assert (at_16[1].averages, at_16[10].averages, at_16[100].averages) == (100, 10, 1)
    assert at_16[100].range is None
    assert at_16[100].consistency is None
    assert (at_16[10].range or 0.0) < (at_16[1].range or 0.0)
    assert at_16[1].leaders > 1
    for row in order_free:
        assert row.range == pytest.approx(0.0, abs=1e-6)
        assert row.consistency == 1.0


def test_averaging_agrees_with_the_rating_that_the_product_has(arena: Arena) -> None:
    ratings = play_orders(arena, 4.0, 200, 0, initial=1000.0)
    known = fit_elo(arena.model_a, arena.model_b, arena.outcome, n_models=20, k=4.0, shuffles=200)
    np.testing.assert_allclose(ratings.mean(axis=0), known.score, atol=5 * np.max(known.sem))
    np.testing.assert_allclose(ratings.mean(axis=1), 1000.0)


def test_the_seed_sets_the_orders(arena: Arena) -> None:
    first, again, other = (play_orders(arena, 4.0, 3, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert len(np.unique(first[:, 0])) == 3
