"""Draws from a table of pairs: how often, with which propensity, and what is never drawn."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare

from app.rating.sampling.pair_weights import PairSampler, PairWeights, uniform_weights

WEIGHTS = PairWeights(
    np.array([7, 3, 9, 4]), np.array([1, 2, 3, 4, 5, 6], dtype=np.float16), np.array([0.0, 2.4, 1.0, np.nan])
)  # pairs (7, 3), (7, 9), (7, 4), (3, 9), (3, 4), (9, 4)


@pytest.mark.parametrize(
    ("avoid", "calibration"),
    [((), 0.0), ((), 0.4), ([(3, 7)], 0.4), ([(9, 4), (4, 3), (5, 9)], 0.0), ([(9, 7), (3, 7), (9, 3)], 0.4)],
)
def test_pairs_come_as_often_as_their_propensities_say(avoid: list[tuple[int, int]], calibration: float) -> None:
    sampler, source = PairSampler(WEIGHTS), np.random.default_rng(1)
    drawn = [sampler.draw(source, avoid=avoid, calibration=calibration) for _ in range(10_000)]
    propensity = {(pair.model_a, pair.model_b): pair.propensity for pair in drawn}
    assert sum(propensity.values()) == pytest.approx(1.0, abs=1e-12)
    assert not propensity.keys() & ({(i, j) for i, j in avoid} | {(j, i) for i, j in avoid})
    counts = Counter((pair.model_a, pair.model_b) for pair in drawn)
    expected = [10_000 * p for p in propensity.values()]
    assert chisquare([counts[pair] for pair in propensity], expected).pvalue > 1e-4


def test_calibrating_battles_are_between_models_with_different_scores() -> None:
    sampler, source = PairSampler(WEIGHTS), np.random.default_rng(2)
    drawn = [sampler.draw(source, calibration=0.5) for _ in range(4_000)]
    calibrating = [pair for pair in drawn if pair.calibrating]
    assert 0.46 < len(calibrating) / len(drawn) < 0.54
    assert Counter((pair.model_a, pair.model_b) for pair in calibrating).most_common(1)[0][0] == (7, 3)
    assert not any(4 in pair[:2] for pair in calibrating)  # it has no score
    unknown = PairSampler(uniform_weights(np.array([1, 2, 3])))
    assert not any(unknown.draw(source, calibration=0.9).calibrating for _ in range(50))
    everything_told = PairSampler(WEIGHTS).draw(source, avoid=[(7, 3), (7, 9), (9, 3)], calibration=0.9)
    assert not everything_told.calibrating


def test_pairs_to_avoid_are_shown_again_where_no_other_is_left() -> None:
    sampler = PairSampler(uniform_weights(np.array([5, 6])))
    assert sampler.draw(np.random.default_rng(3), avoid=[(6, 5)]) == (5, 6, 1.0, False)


def test_one_model_has_no_pair() -> None:
    with pytest.raises(ValueError, match="at least two"):
        PairSampler(uniform_weights(np.array([5])))


def test_a_restricted_table_keeps_the_weights_of_its_pairs() -> None:
    some = WEIGHTS.among(np.array([4, 7, 3]))
    assert some.weight.tolist() == [3, 5, 1]  # (4, 7), (4, 3), (7, 3)
    assert some.models.tolist() == [4, 7, 3]
    np.testing.assert_array_equal(some.R, [np.nan, 0.0, 2.4])


def test_a_model_after_the_snapshot_is_shown_as_often_as_the_most_wanted() -> None:
    more = WEIGHTS.among(np.array([7, 3, 9, 4, 100]))
    mean = {
        model: np.mean([w for pair, w in zip(PAIRS, WEIGHTS.weight, strict=True) if model in pair])
        for model in (7, 3, 9, 4)
    }
    assert more.weight.tolist() == [
        1,
        2,
        3,
        pytest.approx(max(mean.values()), rel=1e-3),
        4,
        5,
        *[more.weight[3]] * 1,
        6,
        more.weight[3],
        more.weight[3],
    ]
    assert np.isnan(more.R[4])


PAIRS = [(7, 3), (7, 9), (7, 4), (3, 9), (3, 4), (9, 4)]
