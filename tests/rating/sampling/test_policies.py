"""The weights of each policy, against formulas written out, and against what they promise."""

from itertools import combinations

import numpy as np
import pytest

from app.rating.sampling.pair_weights import calibration_weights, pair_positions
from app.rating.sampling.policies import POLICIES, balanced, information, lmarena, mixed, top_k
from app.rating.sampling.scored_models import information_covariance

GENERATOR = np.random.default_rng(8)
SIZE = 6
R = 0.3 * GENERATOR.standard_normal(SIZE)
VOTES = np.triu(GENERATOR.integers(5, 60, (SIZE, SIZE)), 1).astype(float)
VOTES += VOTES.T
COVARIANCE = information_covariance(R, VOTES)


def probability(i: int, j: int) -> float:
    return 1.0 / (1.0 + np.exp(R[j] - R[i]))


@pytest.mark.parametrize("policy", POLICIES)
def test_weights_are_symmetric_and_those_of_the_models_not_of_their_order(policy: str) -> None:
    weights = POLICIES[policy](R, COVARIANCE, VOTES, 2)
    np.testing.assert_allclose(weights, weights.T, rtol=1e-12)
    np.testing.assert_array_equal(np.diag(weights), 0.0)
    assert weights.min() >= 0.0
    assert weights.sum() > 0.0
    if policy not in ("top_k", "mixed"):  # which draw
        other = GENERATOR.permutation(SIZE)
        again = POLICIES[policy](R[other], COVARIANCE[np.ix_(other, other)], VOTES[np.ix_(other, other)], 2)
        np.testing.assert_allclose(again, weights[np.ix_(other, other)], rtol=1e-9)


@pytest.mark.parametrize(("i", "j"), [(0, 1), (1, 4), (2, 5)])
def test_each_formula(i: int, j: int) -> None:
    w, n = probability(i, j) * (1.0 - probability(i, j)), VOTES.sum(axis=1)
    assert balanced(VOTES)[i, j] == pytest.approx(1.0 / (n[i] + 10.0) / (n[j] + 10.0))
    here = VOTES[i, j] + 1.0
    assert lmarena(R, VOTES)[i, j] == pytest.approx(np.sqrt(w / here) - np.sqrt(w / (here + 1.0)))
    # what a vote brings: the trace of the covariance with it and without it
    contrast = np.zeros(SIZE)
    contrast[i], contrast[j] = 1.0, -1.0
    after = COVARIANCE - np.outer(COVARIANCE @ contrast, COVARIANCE @ contrast) / (
        1 / w + contrast @ COVARIANCE @ contrast
    )
    assert information(R, COVARIANCE)[i, j] == pytest.approx(np.trace(COVARIANCE) - np.trace(after))


def test_the_covariance_is_that_of_the_next_votes() -> None:
    added = VOTES.copy()
    added[1, 4] += 1.0
    added[4, 1] += 1.0
    fell = np.trace(COVARIANCE) - np.trace(information_covariance(R, added))
    assert information(R, COVARIANCE)[1, 4] == pytest.approx(fell)


def test_top_two_sampling_counts_pairs_of_draws_that_disagree() -> None:
    draws = np.random.default_rng(3).multivariate_normal(R, COVARIANCE, 4_000)
    inside = np.zeros((len(draws), SIZE), dtype=bool)
    np.put_along_axis(inside, np.argsort(-draws, axis=1)[:, :2], True, axis=1)
    one, other = inside[:2_000], inside[2_000:]
    found = top_k(R, COVARIANCE, 2)
    for i, j in combinations(range(SIZE), 2):
        in_out = (one[:, i] & ~one[:, j]).mean() * (other[:, j] & ~other[:, i]).mean()
        assert found[i, j] == pytest.approx(in_out, abs=0.02)
    assert found.sum() > 0.05


def test_top_two_sampling_has_nothing_to_ask_once_the_first_are_decided() -> None:
    apart, exact = np.array([9.0, 8.0, 1.0, 0.0]), 0.01 * np.eye(4)
    assert not top_k(apart, exact, 2).any()
    assert not top_k(apart, exact, 4).any()
    np.testing.assert_array_equal(mixed(apart, exact, 2), information(apart, exact))
    # only models 1 and 2 can change places around place 2
    unsure = np.array([9.0, 1.1, 1.0, -9.0])
    assert {tuple(pair) for pair in np.argwhere(top_k(unsure, exact, 2))} == {(1, 2), (2, 1)}


def test_half_of_the_mixture_decides_the_first() -> None:
    top, informative = top_k(R, COVARIANCE, 2), information(R, COVARIANCE)
    both = mixed(R, COVARIANCE, 2)
    np.testing.assert_allclose(both, 0.5 * top / top.sum() + 0.5 * informative / informative.sum())


def test_calibration_asks_most_where_the_better_model_wins_nine_in_ten() -> None:
    scores = np.append(np.arange(0.0, 6.0, 0.1), np.nan)
    weights, (first, second) = calibration_weights(scores), pair_positions(len(scores))
    best = int(np.argmax(weights))
    assert abs(scores[first[best]] - scores[second[best]]) == pytest.approx(2.4)
    assert not weights[second == len(scores) - 1].any()
    # the information on θ of a vote with P = σ(θd), by finite differences of its log-likelihood
    d, step = 1.3, 1e-4
    p = 1.0 / (1.0 + np.exp(-d))

    def log_likelihood(theta: float) -> float:
        return p * -np.log1p(np.exp(-theta * d)) + (1.0 - p) * -np.log1p(np.exp(theta * d))

    curvature = (log_likelihood(1 + step) - 2 * log_likelihood(1.0) + log_likelihood(1 - step)) / step**2
    assert calibration_weights(np.array([0.0, d]))[0] == pytest.approx(-curvature, rel=1e-4)
