import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.rating.errors import VotesError
from app.rating.plain.elo import fit_elo

vote = st.tuples(st.integers(0, 3), st.integers(1, 3), st.sampled_from([0.0, 0.5, 1.0]))


def one_by_one(a: list[int], b: list[int], outcome: list[float]) -> list[float]:
    rating = [1000.0] * 4
    for i, j, w in zip(a, b, outcome, strict=True):
        expected = 1 / (1 + 10 ** ((rating[j] - rating[i]) / 400))
        rating[i], rating[j] = rating[i] + 4 * (w - expected), rating[j] - 4 * (w - expected)
    return rating


@given(st.lists(vote, min_size=1, max_size=30))
def test_the_recorded_order_is_algorithm_1(votes: list[tuple[int, int, float]]) -> None:
    a, b, w = [v[0] for v in votes], [(v[0] + v[1]) % 4 for v in votes], [v[2] for v in votes]
    result = fit_elo(np.array(a), np.array(b), np.array(w), n_models=4, shuffles=2)
    np.testing.assert_allclose(result.recorded, one_by_one(a, b, w), atol=1e-9)
    assert result.score.sum() == pytest.approx(4000)


def test_shuffles_report_their_mean_its_error_and_the_spread() -> None:
    """A wins then loses against B: two orders, whose final ratings are known."""
    a, b, w = np.array([0, 0]), np.array([1, 1]), np.array([1.0, 0.0])
    result = fit_elo(a, b, w, n_models=2, shuffles=4000, seed=1)
    first, second = one_by_one([0, 0], [1, 1], [1.0, 0.0])[0], one_by_one([0, 0], [1, 1], [0.0, 1.0])[0]
    assert result.score[0] == pytest.approx((first + second) / 2, abs=0.01)
    assert result.sd[0] == pytest.approx(abs(first - second) / 2, rel=0.02)
    np.testing.assert_allclose(result.sem, result.sd / np.sqrt(4000))


def test_the_same_seed_gives_the_same_numbers() -> None:
    generator = np.random.default_rng(0)
    a = generator.integers(0, 4, 50)
    b, w = (a + 1) % 4, generator.integers(0, 2, 50).astype(float)
    one = fit_elo(a, b, w, n_models=4, shuffles=10, seed=7)
    np.testing.assert_array_equal(one.score, fit_elo(a, b, w, n_models=4, shuffles=10, seed=7).score)
    assert not np.array_equal(one.score, fit_elo(a, b, w, n_models=4, shuffles=10, seed=8).score)


def test_nothing_to_rate_and_too_few_shuffles_are_errors() -> None:
    none = np.zeros(0, int)
    with pytest.raises(VotesError, match="no votes"):
        fit_elo(none, none, none.astype(float), n_models=2)
    with pytest.raises(VotesError, match="differ in length"):
        fit_elo(none, none, np.ones(1), n_models=2)
    for points in ({"k": float("inf")}, {"initial": float("nan")}):
        with pytest.raises(ValueError, match="must be finite"):
            fit_elo(np.array([0]), np.array([1]), np.ones(1), n_models=2, shuffles=2, **points)
    with pytest.raises(ValueError, match="at least 2 shuffles"):
        fit_elo(np.array([0]), np.array([1]), np.ones(1), n_models=2, shuffles=1)


@pytest.mark.parametrize(
    ("a", "b", "outcome", "message"),
    [
        ([0, 5], [1, 0], [1, 0.0], "model_a out of range (row 1)"),
        ([0, 1], [1, -1], [1, 0.0], "model_b out of range (row 1)"),
        ([0, 1], [1, 1], [1, 0.0], "a model against itself (row 1)"),
        ([0, 1], [1, 0], [1, np.nan], "outcome is not 0, 0.5 or 1 (row 1)"),
        ([0, 1], [1, 0], [1, 0.7], "outcome is not 0, 0.5 or 1 (row 1)"),
        ([0.0, 1.0], [1, 0], [1, 0.0], "annotators and models must be integers, not float64"),
        ([[0, 1]], [[1, 0]], [[1, 0.0]], "the vote arrays must have one dimension, with one row for each vote"),
    ],
)
def test_votes_that_compiled_loops_would_write_out_of_bounds_for_are_refused(
    a: list[float], b: list[float], outcome: list[float], message: str
) -> None:
    with pytest.raises(VotesError) as caught:
        fit_elo(np.array(a), np.array(b), np.array(outcome), n_models=2, shuffles=2)
    assert str(caught.value) == message
