import numpy as np
import pytest

from app.rating.errors import VotesError
from stable_arena_lab.arenas import Arena, chatbot_arena, paper_arena
from stable_arena_lab.methods import METHODS, Rated, bootstrap_elo, rate


def test_the_simulated_arena_has_the_papers_size_and_its_seed_makes_it(arena: Arena) -> None:
    votes = np.bincount(arena.annotator)
    assert (arena.n_votes, arena.n_annotators, arena.n_models) == (4321, 42, 20)
    assert (votes.min(), votes.max()) == (102, 103)
    assert 0.15 < np.mean(arena.outcome == 0.5) < 0.35
    again, other = paper_arena(0), paper_arena(1)
    np.testing.assert_array_equal(arena.outcome, again.outcome)
    assert not np.array_equal(arena.outcome, other.outcome)


def test_the_shape_of_chatbot_arena() -> None:
    """Of 33,000 votes 4,321 are by the 42 annotators with more than 50, as the am-ELO paper states."""
    whole = chatbot_arena(1)
    assert (whole.n_votes, whole.n_annotators, whole.n_models) == (33_000, 13_383, 20)
    votes = np.bincount(whole.annotator)
    assert (len(votes), votes.min()) == (13_383, 1)
    regulars = whole.of_regulars(50)
    assert (regulars.n_votes, regulars.n_annotators, regulars.n_models) == (4_321, 42, 20)
    assert np.sort(votes)[-1] > 3 * np.sort(votes)[-42] == 3 * 51
    assert 0.25 < np.mean(whole.outcome == 0.5) < 0.42


def test_the_median_over_resamples_is_near_the_mean_over_orders(arena: Arena) -> None:
    """Two ways to average Elo over its noise, with the same start and K: the published code's and the paper's."""
    resampled, shuffled = rate(arena, "elo bootstrap", shuffles=300), rate(arena, "elo", shuffles=300)
    assert resampled is not None
    assert shuffled is not None
    np.testing.assert_allclose(resampled.score, shuffled.score, atol=10.0)
    assert not np.array_equal(resampled.score, shuffled.score)
    rare = Arena(
        "rare", np.zeros(40, dtype=int), np.r_[np.zeros(39, dtype=int), 1], np.r_[np.ones(39, dtype=int), 2],
        np.r_[np.tile([1.0, 0.0, 1.0], 13), 1.0], 1, 4,
    )  # fmt: skip
    scores, sd = bootstrap_elo(rare, resamples=200, seed=0)
    assert np.isnan(scores[3])
    assert scores[2] < 1000.0  # in the resamples with its one vote, which it lost
    assert sd[0] > 0


def test_regulars_are_renumbered_with_their_models() -> None:
    votes = Arena(
        "few", np.array([0, 2, 2, 2]), np.array([0, 1, 3, 3]), np.array([1, 3, 1, 1]), np.array([1.0, 1.0, 0.5, 0.0]),
        n_annotators=3, n_models=4, truth=np.array([1.0, 2.0, 3.0, 4.0]),
    )  # fmt: skip
    kept = votes.of_regulars(1)
    assert (kept.n_annotators, kept.n_models, kept.n_votes) == (1, 2, 3)
    assert kept.annotator.tolist() == [0, 0, 0]
    assert kept.model_a.tolist() == [0, 1, 1]
    assert kept.model_b.tolist() == [1, 0, 0]
    assert kept.truth is not None
    assert kept.truth.tolist() == [2.0, 4.0]
    with pytest.raises(VotesError, match="the most that one has is 3"):
        votes.of_regulars(3)


def test_every_method_finds_most_of_the_true_order(arena: Arena) -> None:
    assert arena.truth is not None
    best = np.argsort(arena.truth)[-5:]
    for method in METHODS:
        rated = rate(arena, method, shuffles=20)
        assert rated is not None
        assert np.corrcoef(rated.score, arena.truth)[0, 1] > 0.95, method
        assert rated.score[best].min() > np.median(rated.score), method


def test_predictions_follow_the_scores_the_ability_and_the_component() -> None:
    rated = Rated(np.array([1400.0, 1000.0, np.nan, 1200.0]), np.array([0, 0, 0, 1]), np.array([1.0, 0.5, -1.0]))
    votes = Arena(
        "asked", np.array([0, 1, 2, 0, 0]), np.array([0, 0, 0, 0, 0]), np.array([1, 1, 1, 2, 3]), np.ones(5), 3, 4
    )
    odds = [10.0, 10.0**0.5, 0.1, 1.0, 1.0]
    np.testing.assert_allclose(rated.predict(votes), [x / (1 + x) for x in odds])


def test_a_method_without_an_answer_says_none() -> None:
    """Plain am-ELO has no finite maximum for an annotator who never contradicts the ranking."""
    pairs = np.array([[0, 1], [1, 2], [0, 2]])
    model_a, model_b = np.tile(pairs, (20, 1)).T
    outcome = np.where(np.arange(60) % 4 == 0, 0.0, 1.0)
    outcome[30:] = 1.0
    votes = Arena("sure", np.repeat([0, 1], 30), model_a, model_b, outcome, 2, 3)
    assert rate(votes, "am-elo plain") is None
    assert rate(votes, "am-elo robust") is not None
