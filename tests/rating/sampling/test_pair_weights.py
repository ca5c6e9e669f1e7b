"""Tables of pair probabilities: what they are made of, and what they promise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.rating.sampling.pair_weights import pair_positions, uniform_weights
from app.rating.sampling.policies import POLICIES, weigh_pairs
from app.rating.sampling.scored_models import ScoredModels, find_newcomers, information_covariance
from app.rating.settings import PairPolicy, SamplingSettings, SettingError
from tests.fixtures.errors import having

SIZE = 8


def models(votes: float = 50.0, **changes: object) -> ScoredModels:
    generator = np.random.default_rng(4)
    R, pair_votes = generator.standard_normal(SIZE), np.full((SIZE, SIZE), votes)
    np.fill_diagonal(pair_votes, 0.0)
    found = {
        "scored": np.ones(SIZE, dtype=bool), "R": R, "covariance": information_covariance(R, pair_votes),
        "pair_votes": pair_votes, **changes,
    }  # fmt: skip
    return ScoredModels(**found)


def share(weights: np.ndarray) -> np.ndarray:
    return weights.astype(np.float64) / weights.sum(dtype=np.float64)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_table_is_the_policy_with_a_floor(policy: PairPolicy) -> None:
    known, pair = models(), pair_positions(SIZE)
    table = weigh_pairs(known, np.arange(SIZE), SamplingSettings(policy, floor=0.25, k=2))
    expected = POLICIES[policy](known.R, known.covariance, known.pair_votes, 2)[pair]
    np.testing.assert_allclose(share(table.weight), 0.25 / 28 + 0.75 * expected / expected.sum(), rtol=1e-3)
    np.testing.assert_array_equal(table.R, known.R)


def test_a_model_without_a_score_gets_battles_of_its_own() -> None:
    scored = np.arange(SIZE) != 3
    known = models(scored=scored)
    new = find_newcomers(known)
    assert new.missing.tolist() == [0, 0, 0, 1, 0, 0, 0, 0]
    assert new.share == pytest.approx(0.1)
    first, second = pair_positions(SIZE)
    own = (first == 3) | (second == 3)
    table = weigh_pairs(known, np.arange(SIZE), SamplingSettings("uniform", floor=0.1))
    assert share(table.weight)[own].sum() == pytest.approx(0.1 * 0.25 + 0.9 * (0.1 + 0.9 * 0.25), rel=1e-3)
    assert np.isnan(table.R[3])
    assert (
        weigh_pairs(models(scored=np.zeros(SIZE, dtype=bool)), np.arange(SIZE), SamplingSettings()).weight.tolist()
        == [1] * 28
    )


def test_the_boost_ends_when_the_interval_is_as_narrow_as_the_neighbours() -> None:
    missing = []
    for votes in (1.0, 5.0, 20.0, 40.0, 50.0):
        known = with_votes_of_one(votes)
        new = find_newcomers(known)
        others = np.arange(SIZE) != 3
        np.testing.assert_array_equal(new.missing[others], 0.0)
        before, after = np.sqrt(np.diag(known.covariance)), np.sqrt(np.diag(new.covariance))
        np.testing.assert_allclose(after[others], before[others])
        # the policies see the newcomer with the votes that it lacks
        assert after[3] == pytest.approx(before[3] * np.sqrt(1.0 - new.missing[3]))
        missing.append(new.missing[3])
    assert missing == sorted(missing, reverse=True)
    assert missing[0] > 0.9
    assert 0.1 < missing[-2] < 0.25
    assert missing[-1] == 0.0


def test_a_model_far_from_the_others_is_no_newcomer() -> None:
    R = np.append(np.linspace(-0.5, 0.5, SIZE - 1), 4.0)
    votes = models().pair_votes
    far = models(R=R, covariance=information_covariance(R, votes))
    error = np.sqrt(np.diag(far.covariance))
    assert error[-1] > 2.0 * error[:-1].max()
    assert not find_newcomers(far).missing.any()


def with_votes_of_one(votes: float) -> ScoredModels:
    """Return the models of which one, model 3, has so many votes on each of its pairs; the others have 50."""
    pair_votes = models().pair_votes
    pair_votes[3] = pair_votes[:, 3] = votes
    pair_votes[3, 3] = 0.0
    return models(pair_votes=pair_votes, covariance=information_covariance(models().R, pair_votes))


def test_many_new_models_share_a_bounded_part_of_the_battles() -> None:
    new = find_newcomers(models(scored=np.arange(SIZE) < 3))
    assert new.share == 0.25
    assert new.missing.sum() == 5


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (SamplingSettings(floor=0.0), "floor"),
        (SamplingSettings(floor=1.5), "floor"),
        (SamplingSettings(k=0), "k"),
        (SamplingSettings("best"), "policy"),  # type: ignore[arg-type]
    ],
)
def test_settings_that_make_no_sense(settings: SamplingSettings, name: str) -> None:
    with pytest.raises(SettingError, check=having(name=name)):
        weigh_pairs(models(), np.arange(SIZE), settings)


def test_degenerate_arenas() -> None:
    one = ScoredModels(np.ones(1, dtype=bool), np.zeros(1), np.zeros((1, 1)), np.zeros((1, 1)))
    assert weigh_pairs(one, np.array([4]), SamplingSettings()).weight.tolist() == []
    both = uniform_weights(np.array([4])).among(np.array([4, 5]))
    assert both.weight.tolist() == [1]
    lonely = models(scored=np.arange(SIZE) == 2)
    assert np.all(weigh_pairs(lonely, np.arange(SIZE), SamplingSettings()).weight > 0)


@given(st.integers(0, 10_000), st.integers(2, 9), st.sampled_from(list(POLICIES)))
def test_every_pair_can_be_drawn_whatever_the_votes(seed: int, size: int, policy: PairPolicy) -> None:
    """Also with models without votes or a score, and with covariances of any size, 0 among them."""
    generator = np.random.default_rng(seed)
    votes = np.triu(generator.poisson(generator.choice([0.2, 5.0, 1e4]), (size, size)), 1).astype(float)
    votes += votes.T
    root = generator.choice([0.0, 0.01, 1.0, 30.0]) * generator.standard_normal((size, size))
    R = generator.choice([0.0, 0.5, 8.0]) * generator.standard_normal(size)
    known = ScoredModels(generator.random(size) < 0.7, R, root @ root.T, votes)
    table = weigh_pairs(known, np.arange(size), SamplingSettings(policy, floor=0.05, k=int(generator.integers(1, 5))))
    assert share(table.weight).min() >= 0.99 * 0.05 / len(table.weight)
    assert np.isfinite(table.weight).all()
    again = weigh_pairs(known, np.arange(size), SamplingSettings(policy, floor=1.0))
    np.testing.assert_allclose(share(again.weight), 1.0 / len(again.weight), rtol=1e-3)
