import numpy as np
import pytest

from app.lab.arenas import Arena, paper_arena
from app.lab.methods import METHODS, Rated, rate
from app.rating.errors import VotesError


def test_the_simulated_arena_has_the_papers_size_and_its_seed_makes_it(arena: Arena) -> None:
    votes = np.bincount(arena.annotator)
    assert (arena.n_votes, arena.n_annotators, arena.n_models) == (4321, 42, 20)
    assert (votes.min(), votes.max()) == (102, 103)
    assert 0.15 < np.mean(arena.outcome == 0.5) < 0.35
    again, other = paper_arena(0), paper_arena(1)
    np.testing.assert_array_equal(arena.outcome, again.outcome)
    assert not np.array_equal(arena.outcome, other.outcome)


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
