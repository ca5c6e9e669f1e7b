"""The fewest models that serve every category: a naive twin, worlds without groups, and whether the bounds hold."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy.special import expit

from app.rating.errors import VotesError
from app.rating.settings import LoopSettings
from app.rating.uncertainty.freedom import critical_values
from app.rating.units import ELO_PER_NATURAL
from app.rating.verdict.categories import Categories, pool_categories
from app.rating.verdict.portfolio import HeldOut, choose_portfolio, hold_out
from app.rating.verdict.rating import Rating
from app.rating.verdict.round import rate_indexed
from app.rating.votes.indexed import IndexedVotes

SETTINGS = LoopSettings(min_votes=0, flag_rule="threshold")
TASTES = np.array([[1.2, -0.3, 0.5, 0.0, -0.6], [-0.3, 1.2, 0.5, 0.0, -0.6]])
"""The first model is best in one category, the second in the other, and the third in the mean of both."""


def fit(votes: IndexedVotes) -> Rating:
    return rate_indexed(votes, votes.aggregate(), SETTINGS)


def draw(
    seed: int, scores: np.ndarray, *, annotators: int = 50, each: int = 80, prompts: int = 0, by_prompt: float = 0.0
) -> tuple[IndexedVotes, np.ndarray]:
    """Return votes, and the category of each; with prompts, each prompt is of one category."""
    generator, (categories, models), size = np.random.default_rng(seed), scores.shape, annotators * each
    annotator = np.repeat(np.arange(annotators, dtype=np.int32), each)
    a = generator.integers(models, size=size, dtype=np.int32)
    b = ((a + generator.integers(1, models, size)) % models).astype(np.int32)
    category, prompt, own = generator.integers(categories, size=size), None, np.zeros((1, models))
    if prompts:
        prompt = generator.integers(prompts, size=size)
        category, own = prompt % categories, by_prompt * generator.standard_normal((prompts, models))
    at = np.zeros(size, dtype=np.int64) if prompt is None else prompt
    p = expit(scores[category, a] - scores[category, b] + own[at, a] - own[at, b])
    names = [[f"{word}{i}" for i in range(number)] for word, number in (("k", annotators), ("m", models))]
    outcome = (generator.random(size) < p).astype(float)
    return IndexedVotes(*names, annotator, a, b, outcome, prompt=prompt), category


def pool(votes: IndexedVotes, category: np.ndarray) -> Categories:
    return pool_categories(fit(votes), [votes.rows(category == c).aggregate() for c in range(category.max() + 1)])


def bounds(found: Categories) -> np.ndarray:
    """Return max_j (S_j − S_i + q se_ij) of each category and model, one pair after the other."""
    whole, size, table = found.whole.covariance, len(found.whole.small.models), []
    for c in range(len(found.cells)):
        rating = found.rating(c)
        assert rating.covariance is not None
        assert whole is not None
        V, R, row = rating.covariance.order, rating.fit.R, []
        for i in range(size):
            gaps = [0.0]
            for j in set(range(size)) - {i}:
                level = 1.0 - 0.1 / (len(found.cells) * (size - 1))
                q = critical_values(whole.contrast_freedom(np.array(i), np.array(j), order=True), level)
                gaps.append(R[j] - R[i] + float(q) * np.sqrt(V[i, i] + V[j, j] - 2.0 * V[i, j]))
            row.append(ELO_PER_NATURAL * max(gaps))
        table.append(row)
    return np.array(table)


@pytest.mark.parametrize("seed", range(3))
def test_the_set_is_a_smallest_one_of_all(seed: int) -> None:
    scores = np.random.default_rng(seed).normal(0.0, 0.6, (5, 7))
    found = pool(*draw(seed, scores, annotators=80, each=150))
    bound = bounds(found)
    for margin in np.quantile(bound.min(axis=1), [0.3, 1.0]) + np.array([0.01, 60.0]):
        chosen = choose_portfolio(found, range(5), float(margin))
        served = (bound <= margin).any(axis=1)
        least = next(
            size for size in range(8)
            if any((bound[served][:, list(some)] <= margin).any(axis=1).all() for some in combinations(range(7), size))
        )  # fmt: skip
        assert len(chosen.models) == least
        np.testing.assert_array_equal(chosen.serves >= 0, served)
        assert (chosen.at_most[served] <= margin).all()
        rows = np.arange(5)[served]
        np.testing.assert_allclose(chosen.at_most[served], bound[rows, chosen.serves[served]], rtol=1e-9)
        assert np.isnan(chosen.at_most[~served]).all()


def test_two_models_serve_two_tastes_and_one_both_by_a_wide_margin() -> None:
    votes, category = draw(1, TASTES)
    held_out, found = hold_out(votes, category, 2, fit), pool(votes, category)
    assert held_out.differ
    assert held_out.votes == len(category)
    near, wide = (choose_portfolio(found, range(2), margin) for margin in (60.0, 220.0))
    assert (near.models.tolist(), near.serves.tolist()) == ([0, 1], [0, 1])
    assert (wide.models.tolist(), wide.serves.tolist()) == ([2], [2, 2])
    assert (wide.behind < wide.at_most).all()
    none = choose_portfolio(pool(*draw(1, np.zeros((2, 5)) + TASTES[0] / 9)), range(2), 1e-6)
    assert (len(none.models), none.serves.tolist()) == (0, [-1, -1])


def test_what_models_do_on_a_prompt_is_not_taken_for_their_category() -> None:
    """Six prompts a category, on each of which other models are good, and no difference between the categories."""
    differ = []
    for seed in range(2):
        votes, category = draw(seed, np.tile(TASTES[:1], (2, 1)), annotators=30, prompts=12, by_prompt=0.8)
        differ.append(hold_out(votes, category, 2, fit).differ)
    assert differ == [False] * 2


def test_votes_that_cannot_be_held_out_are_refused() -> None:
    votes, category = draw(2, TASTES, annotators=4)
    with pytest.raises(VotesError, match="4 annotators"):
        hold_out(votes, category, 2, fit)
    votes, category = draw(2, np.tile(TASTES[:1], (10, 1)), annotators=10, prompts=10)
    some = category < 5
    prompt = np.where(  # one of the first category
        category == 0, 0, np.arange(len(category)) % 9 + 1
    )
    few = hold_out(replace(votes, prompt=prompt), (category > 0).astype(int), 2, fit)
    assert 0 < few.votes < len(category)
    with pytest.raises(VotesError, match="no vote"):
        hold_out(votes, category, 10, fit)
    without = pool_categories(
        rate_indexed(votes, votes.aggregate(), replace(SETTINGS, interval="none")),
        [votes.rows(some).aggregate(), votes.rows(~some).aggregate()],
    )
    with pytest.raises(VotesError, match="intervals"):
        choose_portfolio(without, range(2), 50.0)
    assert HeldOut(10, 0.02, 0.01).differ
    assert not HeldOut(10, 0.01, 0.02).differ


@pytest.mark.campaign
@pytest.mark.parametrize("prompts", [0, 60])
def test_models_that_serve_are_within_the_margin_and_no_groups_are_seldom_found(prompts: int) -> None:
    held, none, margin = [], [], 100.0
    for seed in range(40):
        scores = np.random.default_rng(seed).normal(0.0, 0.4, (4, 8))
        votes, category = draw(seed, scores, prompts=prompts, by_prompt=0.3)
        chosen = choose_portfolio(pool(votes, category), range(4), margin)
        truth = ELO_PER_NATURAL * (scores.max(axis=1) - scores[np.arange(4), chosen.serves])
        held.append(bool((truth[chosen.serves >= 0] <= margin).all()))
        same, category = draw(seed, np.tile(scores[:1], (4, 1)), prompts=prompts, by_prompt=0.3)
        none.append(not hold_out(same, category, 4, fit).differ)
    assert np.mean(held) >= 0.95
    assert np.mean(none) >= 0.95
