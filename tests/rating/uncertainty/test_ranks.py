from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.rating.arrays import Floats, Mask
from app.rating.settings import LoopSettings
from app.rating.simulation.worlds import simulate_votes
from app.rating.uncertainty import ranks
from app.rating.uncertainty.bounds import predict_matchups
from app.rating.uncertainty.covariance import Covariance, contrast_errors
from app.rating.uncertainty.freedom import critical_values
from app.rating.uncertainty.models import order_scores
from app.rating.uncertainty.ranks import (
    LIKELY,
    SURE,
    bonferroni_multiple,
    class_ranks,
    order_together,
    rank_by,
    rank_range,
)
from app.rating.verdict.rating import estimate
from app.rating.votes.cells import aggregate

ALPHA = 0.05


def orders(n: int, seed: int) -> Mask:
    """Return which of n models are certainly above which: those that are .3 or more apart."""
    score = np.random.default_rng(seed).random(n)
    return score[:, None] - score > 0.3


@given(st.integers(1, 20), st.integers(0, 1000))
def test_the_range_of_ranks_is_its_definition(n: int, seed: int) -> None:
    above = orders(n, seed)
    best, worst = rank_range(above)
    for i in range(n):
        assert best[i] == 1 + sum(bool(above[j, i]) for j in range(n))
        assert worst[i] == n - sum(bool(above[i, j]) for j in range(n))


def test_equal_keys_share_the_better_rank() -> None:
    assert rank_by(np.array([5.0, 7.0, 5.0, 1.0])).tolist() == [2, 1, 2, 4]


def test_a_class_is_what_its_best_model_is_not_above() -> None:
    above = np.zeros((5, 5), dtype=bool)
    above[0, [2, 4]] = above[1, [2, 3, 4]] = above[2, 4] = True
    # 1 is above 3, but 0 opens the class and is not
    assert class_ranks(np.arange(1, 6), above).tolist() == [1, 1, 2, 1, 3]


@given(st.integers(1, 20), st.integers(0, 1000), st.randoms())
def test_every_model_is_in_the_class_of_the_best_opener_that_is_not_above_it(n: int, seed: int, random: Random) -> None:
    above = orders(n, seed)
    rank = rank_by(np.random.default_rng(seed).random(n))
    classes = class_ranks(rank, above)
    openers: list[int] = []
    for i in np.argsort(rank).tolist():
        reached = [number for number, opener in enumerate(openers, 1) if not above[opener, i]]
        if not reached:
            openers.append(i)
            reached = [len(openers)]
        assert classes[i] == reached[0]
    order = list(range(n))
    random.shuffle(order)
    assert (class_ranks(rank[order], above[np.ix_(order, order)]) == classes[order]).all()


def order(score: Floats, covariance: Floats) -> Mask:
    """Order models with normal errors of this covariance."""
    every = np.arange(len(score))
    errors = contrast_errors(covariance, every[:, None], every)
    z = np.divide(score[:, None] - score, errors, out=np.zeros_like(errors), where=errors > 0.0)
    return order_together(z, errors, covariance, ALPHA)


def hold(truth: Floats, covariance: Floats, times: int) -> float:
    """Return how often no model is said to be above one that is as good or better."""
    generator, root = np.random.default_rng(0), np.linalg.cholesky(covariance)
    wrong = truth[:, None] <= truth
    held = [
        not (order(truth + root @ generator.normal(size=len(truth)), covariance) & wrong).any() for _ in range(times)
    ]
    return float(np.mean(held))


@pytest.mark.parametrize("most_simulated", [100, 0])
def test_orders_of_equal_models_hold_as_often_as_they_say(most_simulated: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hardest truth: any statement is wrong."""
    monkeypatch.setattr(ranks, "MOST_SIMULATED", most_simulated)
    share = hold(np.zeros(6), np.eye(6) + 0.5, 400)
    assert 0.925 < share < 0.99  # .955 expected by simulation, .97 by Bonferroni's inequality; an error of .01


def test_orders_hold_where_some_models_are_equal_and_the_others_far_away() -> None:
    assert hold(np.array([9.0, 9.0, 9.0, 0.0, 0.0, -20.0]), np.eye(6), 200) > 0.9


def test_pairs_that_are_far_apart_cost_the_close_ones_nothing() -> None:
    """Beside 30 distant models two close ones are told apart by little more than if they were alone."""
    score = np.r_[2.6 * np.sqrt(2.0), 0.0, 100.0 * np.arange(2, 32)]
    assert order(score[:2], np.eye(2))[0, 1]
    assert order(score, np.eye(32))[0, 1]
    assert bonferroni_multiple(ALPHA, 32) > 2.6
    monotone = score[:, None] > score
    assert (order(score, np.eye(32)) == monotone).all()


def test_an_order_needs_an_error_that_is_known() -> None:
    assert not order(np.array([1.0, 0.0]), np.zeros((2, 2))).any()


def test_more_models_than_are_simulated_are_ordered_by_bonferronis_inequality() -> None:
    n = ranks.MOST_SIMULATED + 1
    score = np.r_[4.0, np.zeros(n - 1)] * np.sqrt(2.0)
    assert not order(score, np.eye(n)).any(), "4 standard errors are not enough for 5,050 pairs"
    score[0] *= 1.3
    found = order(score, np.eye(n))
    assert found[0, 1:].all()
    assert found.sum() == n - 1


@pytest.mark.parametrize("seed", range(3))
def test_one_test_of_difference_makes_classes_rank_sets_and_predictions(seed: int) -> None:
    votes = simulate_votes(seed, n_models=14, roles={"honest": 25}, votes_each=40, score_sd=90.0)
    cells = aggregate(votes.annotator, votes.model_a, votes.model_b, votes.outcome, **votes.sizes)
    rating = estimate(cells, LoopSettings())
    found, (a, b) = rating.models, np.triu_indices(14, 1)
    sure = found.sureness
    leader = int(np.argmin(found.rank))
    assert set(np.flatnonzero(found.class_rank == 1)) == {leader, *np.flatnonzero(sure[leader] == 0)}
    np.testing.assert_array_equal(found.rank_set_best, 1 + (sure == SURE).sum(axis=0))
    np.testing.assert_array_equal(found.rank_set_worst, 14 - (sure == SURE).sum(axis=1))
    predicted = predict_matchups(rating, a, b)
    np.testing.assert_array_equal(sure[a, b] > 0, predicted.lower > 0.5)
    np.testing.assert_array_equal(sure[b, a] > 0, predicted.upper < 0.5)
    assert not (sure.astype(bool) & sure.T.astype(bool)).any()
    assert {0, LIKELY, SURE} == set(sure.ravel().tolist()), "all of them occur"


def test_a_difference_at_the_border_is_judged_as_exactly_as_its_interval() -> None:
    """Few judges: the widening that is interpolated for all pairs would be off by .1 %."""
    freedom = np.array([2.3, 3.7, 11.1, 47.9])
    exact = critical_values(freedom, 0.95)
    spread = Covariance(
        np.zeros((5, 5)), np.diag([0.0, 1.0, 1.0, 1.0, 1.0]), np.empty(0), "clustered", 5,
        np.concatenate([[1.0], freedom]), np.full(5, 5),
    )  # fmt: skip
    for factor in (1.0 - 1e-6, 1.0 + 1e-6):
        R = np.concatenate([[0.0], -factor * exact])
        above = order_scores(R, spread, np.arange(5), (0.05, 0.001), 0.0)[0]
        assert above[0, 1:].tolist() == [factor > 1.0] * 4
