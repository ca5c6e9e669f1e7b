"""Boards of categories, partially pooled: a naive twin, known truths, and what must not or must make a difference."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit

from app.rating.errors import NotConvergedError, VotesError
from app.rating.settings import LoopSettings
from app.rating.simulation.worlds import SimulatedVotes, draw_pairs, make_world, simulate_votes
from app.rating.uncertainty import pooling
from app.rating.uncertainty.pooling import PooledLikelihood
from app.rating.verdict import categories
from app.rating.verdict.categories import Categories, pool_categories
from app.rating.verdict.round import run_round
from app.rating.votes.cells import Cells, aggregate

PLAIN = LoopSettings(min_votes=0, flag_rule="threshold")
MODELS = 5
UNIT = 1.045  # mean of the log-normal abilities of a simulated world


def part_of(votes: SimulatedVotes, keep: np.ndarray) -> Cells:
    columns = (getattr(votes, name)[keep] for name in ("annotator", "model_a", "model_b", "outcome"))
    return aggregate(*columns, **votes.sizes)


def pool(votes: SimulatedVotes, category: np.ndarray, options: LoopSettings = PLAIN) -> Categories:
    whole = run_round(part_of(votes, np.ones(len(category), dtype=bool)), options)
    return pool_categories(whole, [part_of(votes, category == c) for c in range(category.max() + 1)])


def draw_world(
    seed: int, annotators: int, votes_each: int, tau: float, shares: Sequence[float], *, models: int = 12,
    own_category: bool = False,
) -> tuple[SimulatedVotes, np.ndarray, np.ndarray]:  # fmt: skip
    """Return votes, the category of each, and the true scores S_ic ~ N(S_i, tau²), centred, by category."""
    generator = np.random.default_rng(seed)
    world = make_world(generator, n_models=models, roles={"honest": annotators})
    truth = world.score + tau * generator.standard_normal((len(shares), models))
    annotator = np.repeat(np.arange(annotators), votes_each)
    chosen = generator.choice(len(shares), annotators if own_category else len(annotator), p=shares)
    category = chosen[annotator] if own_category else chosen
    model_a, model_b = draw_pairs(generator, models, len(annotator))
    outcome = np.zeros(len(annotator))
    for c, score in enumerate(truth):
        here = category == c
        outcome[here] = replace(world, score=score).vote(annotator[here], model_a[here], model_b[here], generator)
    votes = SimulatedVotes(
        world, annotator, model_a, model_b, outcome, {"n_annotators": annotators, "n_models": models}
    )
    return votes, category, 1000.0 + UNIT * (truth - truth.mean(axis=1, keepdims=True))


def textbook(
    votes: SimulatedVotes, category: np.ndarray, ability: np.ndarray, tau: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return modes, covariance and Laplace's evidence, from all scores in one vector, the common ones first."""
    rows, sides = np.arange(len(category)), np.zeros((len(category), 4, MODELS))
    sides[rows, category + 1, votes.model_a] = ability[votes.annotator]
    sides[rows, category + 1, votes.model_b] = -ability[votes.annotator]
    flat, ones = sides.reshape(len(rows), -1), np.ones((4 * MODELS, 4 * MODELS))
    star = np.vstack([[3.0, -1.0, -1.0, -1.0], np.column_stack([-np.ones(3), np.eye(3)])])
    prior = np.kron(star, np.eye(MODELS)) / tau**2 + 2.0 * ones

    def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
        z = flat @ x
        value = np.sum(np.logaddexp(0, z) - votes.outcome * z) + 0.5 * x @ prior @ x
        return float(value), flat.T @ (expit(z) - votes.outcome) + prior @ x

    x = minimize(objective, np.zeros(4 * MODELS), jac=True, method="BFGS", options={"gtol": 1e-8}).x
    p = expit(flat @ x)
    H = (flat.T * (p * (1 - p))) @ flat + prior
    evidence = -objective(x)[0] - 0.5 * np.linalg.slogdet(H)[1] - 3 * MODELS * np.log(tau)
    return x.reshape(4, MODELS)[1:], np.linalg.inv(H), float(evidence)


@given(st.integers(0, 10**6), st.floats(0.1, 1.5))
@example(9507, 1.25)  # the errors, of the last step's scores, are known to 4e-6
@settings(max_examples=3)
def test_scores_errors_and_evidence_agree_with_a_general_optimiser(seed: int, tau: float) -> None:
    votes = simulate_votes(seed, n_models=MODELS, roles={"honest": 8}, votes_each=20)
    generator = np.random.default_rng(seed)
    ability, category = generator.normal(1.0, 0.7, 8), generator.integers(0, 3, 160)
    likelihood = PooledLikelihood(
        [part_of(votes, category == c) for c in range(3)], ability, np.zeros(MODELS, dtype=np.int64), np.ones(8)
    )
    found, other = likelihood.fit(tau, np.zeros((3, MODELS))), likelihood.fit(2 * tau, np.zeros((3, MODELS)))
    R, inverse, evidence = textbook(votes, category, ability, tau)
    np.testing.assert_allclose(found.R - found.R.mean(), R - R.mean(), atol=1e-4)
    across, share = np.eye(MODELS) - 1 / MODELS, np.array([0.7, -0.2, 0.5])
    mix = across @ np.kron(np.append(0.0, share), np.eye(MODELS))
    np.testing.assert_allclose(across @ found.covariance(share) @ across, mix @ inverse @ mix.T, rtol=1e-4, atol=1e-6)
    assert other.evidence - found.evidence == pytest.approx(
        textbook(votes, category, ability, 2 * tau)[2] - evidence, abs=1e-4
    )


def test_categories_that_do_not_differ_have_the_boards_of_all_votes() -> None:
    """Half and half at random: nearly the main scores, with intervals hardly wider, where a separate fit had ±√2."""
    votes, category, _ = draw_world(1, 60, 100, 0.0, (0.5, 0.5))
    found = pool(votes, category)
    assert found.tau < 15
    for c in range(2):
        models = found.rating(c).models
        assert np.abs(models.score - found.whole.models.score).max() < 12
        assert np.all(models.se > 0.95 * found.whole.models.se)
        assert models.se.mean() < 1.25 * found.whole.models.se.mean()
        assert models.votes.sum() == 2 * (category == c).sum()


def test_categories_that_differ_have_boards_of_their_own() -> None:
    votes, category, truth = draw_world(2, 80, 200, 150.0, (0.5, 0.5))
    found = pool(votes, category)
    assert 70 < found.tau < 300
    for c in range(2):
        difference, se = found.differences(c)
        np.testing.assert_allclose(difference, found.rating(c).models.score - found.whole.models.score, atol=1e-6)
        assert np.abs(found.rating(c).models.score - truth[c]).mean() < 25
        assert np.abs(found.whole.models.score - truth[c]).mean() > 60
        assert np.mean(np.abs(difference) > 2 * se) > 0.5


def test_a_model_without_votes_in_a_category_has_the_score_of_all_votes_and_a_wide_interval() -> None:
    votes, category, _ = draw_world(3, 60, 100, 80.0, (0.6, 0.4))
    category[(votes.model_a == 0) | (votes.model_b == 0)] = 0
    found = pool(votes, category)
    models, whole = found.rating(1).models, found.whole.models
    assert models.votes[0] == 0
    assert models.identified.all()
    # within what the category is centred by
    assert models.score[0] == pytest.approx(found.rating(0).models.score[0], abs=found.tau)
    assert models.se[0] > 1.5 * np.median(models.se)
    assert models.se[0] > found.tau
    assert models.upper[0] - models.lower[0] > whole.upper[0] - whole.lower[0]


def test_a_mixture_is_the_weighted_sum_and_narrower_than_its_parts() -> None:
    votes, category, _ = draw_world(4, 60, 100, 60.0, (0.4, 0.3, 0.3))
    found = pool(votes, category)
    parts = [found.rating(c).models for c in range(3)]
    share = np.array([0.2, 0.5, 0.3])
    mixed = found.mix(share, found.whole.cells).models
    expected = sum(w * part.score for w, part in zip(share, parts, strict=True))
    np.testing.assert_allclose(mixed.score, expected, atol=1e-6)
    assert np.all(mixed.se < np.max([part.se for part in parts], axis=0))
    assert mixed.votes.sum() == 2 * len(category)


def test_a_component_without_a_vote_in_a_category_is_not_on_its_board() -> None:
    """Models 8 and 9 are an island, of which category 1 has a few votes and category 0 none."""
    votes, category, _ = draw_world(5, 30, 100, 40.0, (0.5, 0.5), models=8)
    more = [(k, 8, 9, (k % 3) / 2) for k in range(30)]
    columns = (votes.annotator, votes.model_a, votes.model_b, votes.outcome)
    merged = [np.append(mine, other) for mine, other in zip(columns, zip(*more, strict=True), strict=True)]
    votes = SimulatedVotes(votes.world, *merged, {"n_annotators": 30, "n_models": 10})
    found = pool(votes, np.append(category, np.ones(30, dtype=np.int64)))
    assert found.whole.models.component.tolist() == [0] * 8 + [1, 1]
    assert found.rating(0).models.component.tolist() == [0] * 8 + [-1, -1]
    assert found.rating(1).models.component.tolist() == [0] * 8 + [1, 1]


def test_a_category_of_models_without_a_score_is_centred_as_all_votes_are() -> None:
    """Its votes are on models that only lost: none is between two scores, and each score is about that of all votes."""
    votes, category, _ = draw_world(5, 30, 100, 40.0, (0.5, 0.5), models=8)
    more = [(k, 8, 9, 1.0) for k in range(30)] + [(k, k % 8, 8 + k % 2, 1.0) for k in range(30)]
    columns = (votes.annotator, votes.model_a, votes.model_b, votes.outcome)
    merged = [np.append(mine, other) for mine, other in zip(columns, zip(*more, strict=True), strict=True)]
    votes = SimulatedVotes(votes.world, *merged, {"n_annotators": 30, "n_models": 10})
    found = pool(votes, np.concatenate([category, np.full(60, 2)]))
    models, whole = found.rating(2).models, found.whole.models
    assert found.whole.identified.tolist() == [True] * 8 + [False] * 2
    assert models.score[:8] == pytest.approx(whole.score[:8], abs=found.tau)
    assert np.isfinite(models.lower[:8]).all()
    assert np.isfinite(models.upper).all(), "a model that only lost has an upper bound"


def test_votes_keep_the_weights_of_the_whole() -> None:
    """One of 20 has 20 times as many votes: counted in full, they would be most of what is known."""
    limited = replace(PLAIN, influence_limit=1.25)
    votes, category, _ = draw_world(6, 20, 60, 0.0, (0.7, 0.3))
    more = np.tile(np.flatnonzero(votes.annotator == 0), 20)
    columns = (np.append(x, x[more]) for x in (votes.annotator, votes.model_a, votes.model_b, votes.outcome))
    votes = SimulatedVotes(votes.world, *columns, votes.sizes)
    found = pool(votes, np.append(category, category[more]), limited)
    for c in range(2):
        assert np.abs(found.rating(c).models.score - found.whole.models.score).max() < 30


def test_a_category_that_coins_judged_says_little() -> None:
    """Their own fit had no score: divided by abilities that may be 0, it could be anything."""
    votes = simulate_votes(7, n_models=6, roles={"honest": 12, "random": 4}, votes_each=120)
    found = pool(votes, (votes.annotator >= 12).astype(np.int64))
    coins, whole = found.rating(1).models, found.whole.models
    assert np.all(np.abs(coins.score - whole.score) < coins.upper - coins.score)
    assert np.all(coins.se > whole.se)


def test_without_intervals_and_with_an_anchor() -> None:
    votes, category, _ = draw_world(8, 30, 60, 40.0, (0.5, 0.5))
    found = pool(votes, category, replace(PLAIN, interval="none", anchor=(2, 1234.0)))
    models = found.rating(1).models
    assert models.score[2] == pytest.approx(1234.0)
    assert np.isnan(models.se).all()


def test_too_many_models_and_a_search_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    votes, category, _ = draw_world(9, 20, 60, 40.0, (0.5, 0.5))
    with monkeypatch.context() as limited:
        limited.setattr(categories, "LARGEST", 100)
        with pytest.raises(VotesError, match="too many"):
            pool(votes, category)
    monkeypatch.setattr(pooling, "MOST_ITERATIONS", 1)
    with pytest.raises(NotConvergedError):
        pool(votes, category)


@pytest.mark.campaign
@pytest.mark.parametrize(("annotators", "votes_each", "arenas"), [(20, 200, 40), (200, 100, 40), (2000, 60, 48)])
@pytest.mark.parametrize("tau", [0.0, 30.0, 100.0])
@pytest.mark.parametrize("own_category", [False, True])
def test_intervals_hold_the_scores_of_categories_and_of_their_weighted_mean(
    annotators: int, votes_each: int, arenas: int, tau: float, own_category: bool
) -> None:
    """Where annotators keep to one category, abilities and differences of scores are hard to tell apart."""
    held, weighted, weights = [], [], np.array([0.1, 0.2, 0.3, 0.4])
    for seed in range(arenas):
        votes, category, truth = draw_world(
            seed, annotators, votes_each, tau, (0.6, 0.25, 0.1, 0.05), own_category=own_category
        )
        found = pool(votes, category, replace(PLAIN, prior_sd="estimated"))
        share, true = weights[: len(found.cells)], truth[: len(found.cells)]
        boards = [found.rating(c).models for c in range(len(share))]
        held.append(np.mean([(m.lower <= S) & (m.upper >= S) for m, S in zip(boards, true, strict=True)]))
        mixed, mean = found.mix(share / share.sum(), found.whole.cells).models, share @ true / share.sum()
        weighted.append(np.mean((mixed.lower <= mean) & (mixed.upper >= mean)))
    hard = annotators == 2000 and tau == 100.0  # errors of a few points, beside which the bias of the scale is seen
    assert np.mean(held) > (0.89 if hard else 0.92)
    assert np.mean(weighted) > 0.9
