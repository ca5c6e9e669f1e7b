"""Boards of a slice of the votes, abilities held: a naive twin, and what must not or must make a difference."""

from collections.abc import Callable
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, logit

from app.rating.errors import VotesError
from app.rating.fit.scale import ELO_PER_NATURAL
from app.rating.settings import LoopSettings
from app.rating.simulation.worlds import SimulatedVotes, simulate_votes
from app.rating.uncertainty.results import ModelEstimates
from app.rating.verdict.rating import estimate
from app.rating.verdict.round import run_round
from app.rating.verdict.slices import HeldAbilities, fit_slice, hold_abilities
from app.rating.votes.cells import Cells, aggregate

MakeCells = Callable[[SimulatedVotes], Cells]
UNCORRECTED = LoopSettings(min_votes=0, bias_correction=False)
MODELS, ANNOTATORS = 5, 24


def estimate_slice(cells: Cells, held: HeldAbilities, options: LoopSettings) -> ModelEstimates:
    return fit_slice(cells, held, options).models


def known(ability: np.ndarray) -> HeldAbilities:
    nothing = np.zeros(len(ability))
    return HeldAbilities(ability, nothing, nothing, nothing)


def slice_of(votes: SimulatedVotes, keep: np.ndarray) -> Cells:
    columns = (getattr(votes, name)[keep] for name in ("annotator", "model_a", "model_b", "outcome"))
    return aggregate(*columns, **votes.sizes)


def assert_same(one: ModelEstimates, other: ModelEstimates, atol: float) -> None:
    for field in fields(ModelEstimates):
        np.testing.assert_allclose(getattr(one, field.name), getattr(other, field.name), atol=atol, err_msg=field.name)


def textbook(votes: SimulatedVotes, keep: np.ndarray, ability: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores and their clustered errors, vote by vote with a general-purpose optimiser."""
    k, a, b = (getattr(votes, name)[keep] for name in ("annotator", "model_a", "model_b"))
    sides = np.zeros((len(k), MODELS))
    sides[np.arange(len(k)), a], sides[np.arange(len(k)), b] = ability[k], -ability[k]
    W = votes.outcome[keep]

    def objective(R: np.ndarray) -> tuple[float, np.ndarray]:
        x = sides @ R
        return float(np.sum(np.logaddexp(0, x) - W * x)) + R.sum() ** 2, -sides.T @ (W - expit(x)) + 2 * R.sum()

    R = minimize(objective, np.zeros(MODELS), jac=True, method="BFGS", options={"gtol": 1e-9}).x
    p = expit(sides @ R)
    bread = np.linalg.pinv((sides.T * (p * (1 - p))) @ sides)
    own = np.zeros((ANNOTATORS, MODELS))
    np.add.at(own, k, sides**2 * (p * (1 - p))[:, None])
    share = (own / own.sum(axis=0))[k]
    largest = np.maximum(share[np.arange(len(k)), a], share[np.arange(len(k)), b])
    by_annotator = np.zeros((ANNOTATORS, MODELS))
    np.add.at(by_annotator, k, sides * ((W - p) / np.sqrt(1 - np.minimum(largest, 0.8)))[:, None])
    independent = p * (1 - p) * np.clip((largest - 0.15) / 0.65, 0, 1)
    meat = by_annotator.T @ by_annotator + (sides.T * independent) @ sides
    covariance = bread @ meat @ bread
    return ELO_PER_NATURAL * R, ELO_PER_NATURAL * np.sqrt(np.diag(covariance))


@given(st.integers(0, 10**6))
@settings(max_examples=15)
def test_scores_and_errors_agree_with_a_general_optimiser_vote_by_vote(seed: int) -> None:
    votes = simulate_votes(seed, n_models=MODELS, roles={"honest": 20, "random": 2, "flip": 2}, votes_each=40)
    generator = np.random.default_rng(seed)
    keep, ability = generator.random(len(votes.outcome)) < 0.5, generator.normal(1.0, 0.7, ANNOTATORS)
    board = estimate_slice(slice_of(votes, keep), known(ability), UNCORRECTED)
    if not board.identified.all():
        return
    score, se = textbook(votes, keep, ability)
    np.testing.assert_allclose(board.score - board.score.mean(), score - score.mean(), atol=1e-4)
    np.testing.assert_allclose(board.se, se, rtol=1e-4)


@pytest.mark.parametrize("prior_sd", [1.0, None])
def test_a_slice_of_all_votes_is_the_whole(cells_of: MakeCells, prior_sd: float | None) -> None:
    """Model 7 only wins, models 8 and 9 are an island: whatever has no score is bounded and placed alike."""
    votes = simulate_votes(3, n_models=7, roles={"honest": 25, "flip": 3}, votes_each=120)
    more = [(k, 7, k % 7, 1.0) for k in range(20)] + [(k, 8, 9, (k % 3) / 2) for k in range(20)]
    columns = (getattr(votes, name) for name in ("annotator", "model_a", "model_b", "outcome"))
    merged = [np.append(mine, other) for mine, other in zip(columns, zip(*more, strict=True), strict=True)]
    cells = aggregate(*merged, n_annotators=28, n_models=10)
    cap = None if prior_sd is None else 1.75
    options = LoopSettings(
        min_votes=0, bias_correction=False, prior_sd=prior_sd, ability_cap=cap, flag_rule="threshold"
    )
    rating = run_round(cells, options)
    board = estimate_slice(cells, hold_abilities(rating, options), options)
    assert rating.models.identified.tolist() == [True] * 7 + [False, True, True]
    for name in ("score", "rank", "votes", "wins", "ties", "losses", "component", "identified"):
        np.testing.assert_allclose(getattr(board, name), getattr(rating.models, name), atol=1e-6, err_msg=name)
    outside = ~rating.models.identified
    np.testing.assert_allclose(board.lower[outside], rating.models.lower[outside], atol=0.1)  # errors differ
    assert np.all(board.se[board.identified] <= rating.models.se[board.identified])  # abilities taken for known


def test_neither_order_nor_labels_nor_sides_matter_and_weights_split(cells_of: MakeCells) -> None:
    votes = simulate_votes(2, n_models=MODELS, roles={"honest": ANNOTATORS}, votes_each=30)
    generator = np.random.default_rng(0)
    ability = generator.normal(1.0, 0.4, ANNOTATORS)
    models, annotators = generator.permutation(MODELS), generator.permutation(ANNOTATORS)
    order = generator.permutation(len(votes.outcome))
    columns = (annotators[votes.annotator], models[votes.model_b], models[votes.model_a], 1.0 - votes.outcome)
    halves = [np.tile(column[order], 2) for column in columns]
    other = aggregate(*halves, weight=np.full(2 * len(order), 0.5), **votes.sizes)
    one = estimate_slice(cells_of(votes), known(ability), UNCORRECTED)
    two = estimate_slice(other, known(ability[np.argsort(annotators)]), UNCORRECTED)
    turned = {field.name: getattr(two, field.name)[models] for field in fields(ModelEstimates)}
    assert_same(one, ModelEstimates(**turned), atol=1e-8)


def test_abilities_of_one_make_m_elo_of_the_slice(cells_of: MakeCells) -> None:
    cells = cells_of(simulate_votes(4, n_models=MODELS, roles={"honest": ANNOTATORS}, votes_each=30))
    for interval in ("clustered", "sandwich", "information", "none"):
        options = LoopSettings(method="m-elo", min_votes=0, interval=interval)
        held = hold_abilities(estimate(cells, options), options)
        assert_same(estimate_slice(cells, held, options), run_round(cells, options).models, atol=1e-7)


def test_annotators_outside_the_fit_are_left_out(cells_of: MakeCells) -> None:
    votes = simulate_votes(5, n_models=MODELS, roles={"honest": ANNOTATORS}, votes_each=30)
    ability = np.where(np.arange(ANNOTATORS) < 3, np.nan, 1.2)
    without = slice_of(votes, votes.annotator >= 3)
    assert_same(
        estimate_slice(cells_of(votes), known(ability), UNCORRECTED),
        estimate_slice(without, known(np.full(ANNOTATORS, 1.2)), UNCORRECTED),
        atol=0.0,
    )


def test_one_annotator_has_plain_intervals(cells_of: MakeCells) -> None:
    cells = cells_of(simulate_votes(6, n_models=MODELS, roles={"honest": 1}, votes_each=90))
    ability = np.array([0.8])
    plain = LoopSettings(min_votes=0, interval="sandwich")
    assert_same(
        estimate_slice(cells, known(ability), UNCORRECTED), estimate_slice(cells, known(ability), plain), atol=0.0
    )


def test_what_the_slice_does_not_identify_is_bounded_by_the_abilities_held() -> None:
    """One vote each: no model has a score; two models in both directions: the third, which only won, has a bound."""
    one_vote = aggregate(np.array([0]), np.array([0]), np.array([1]), np.array([1.0]), n_annotators=2, n_models=2)
    board = estimate_slice(one_vote, known(np.ones(2)), UNCORRECTED)
    assert not board.identified.any()
    assert np.isnan(board.score).all()
    k, a, b = np.array([0, 0, 1, 1]), np.array([0, 0, 2, 2]), np.array([1, 1, 0, 1])
    third = aggregate(k, a, b, np.array([1.0, 0.0, 1.0, 1.0]), n_annotators=2, n_models=3)
    sharp, blunt = (estimate_slice(third, known(np.array([1.0, x])), UNCORRECTED) for x in (2.0, 0.5))
    assert sharp.identified.tolist() == [True, True, False]
    at = logit(0.05**0.5) * ELO_PER_NATURAL  # two wins over models at 0: σ(aR)² = .05
    np.testing.assert_allclose([sharp.lower[2], blunt.lower[2]], [1000.0 + at / 2.0, 1000.0 + at / 0.5])
    assert np.isinf(sharp.upper[2])


def test_the_anchor_holds_in_the_slice_or_is_missed(cells_of: MakeCells) -> None:
    votes = simulate_votes(7, n_models=MODELS, roles={"honest": ANNOTATORS}, votes_each=30)
    anchored = LoopSettings(min_votes=0, anchor=(2, 1234.0))
    held = known(np.ones(ANNOTATORS))
    assert estimate_slice(cells_of(votes), held, anchored).score[2] == pytest.approx(1234.0)
    missing = slice_of(votes, (votes.model_a != 2) & (votes.model_b != 2))
    with pytest.raises(VotesError, match="anchor"):
        estimate_slice(missing, held, anchored)


def test_a_slice_without_annotators_of_the_fit_is_refused(cells_of: MakeCells) -> None:
    cells = cells_of(simulate_votes(8, n_models=MODELS, roles={"honest": ANNOTATORS}, votes_each=5))
    with pytest.raises(VotesError, match="no vote of the slice"):
        estimate_slice(cells, known(np.full(ANNOTATORS, np.nan)), UNCORRECTED)


def test_the_slices_bias_is_corrected_where_the_wholes_is() -> None:
    """Half of the votes of 30 arenas, 40 annotators with 51 votes each: uncorrected, 5 % too wide."""
    scale = {True: [], False: []}
    for seed in range(30):
        votes = simulate_votes(seed, roles={"honest": 40}, votes_each=51)
        truth = votes.world.score * votes.world.ability.mean()
        truth -= truth.mean()
        everything, half = (slice_of(votes, np.arange(len(votes.outcome)) % step == 0) for step in (1, 2))
        wide = LoopSettings(interval="none", prior_sd=1.0)
        for corrected, options in ((True, wide), (False, UNCORRECTED)):
            held = hold_abilities(estimate(everything, wide), options)
            score = estimate_slice(half, held, options).score
            scale[corrected].append(np.nan_to_num(score - np.nanmean(score)) @ truth / (truth @ truth))
    assert abs(np.mean(scale[True]) - 1.0) < 0.03
    assert np.mean(scale[False]) - np.mean(scale[True]) > 0.03


def test_a_model_judged_by_coins_only_has_no_score() -> None:
    """Model 3 is judged by two who may be coins; where they surely are not quite, it has a score, a wide one."""
    k, a, b = np.array([0, 0, 1, 1, 2, 2] * 4), np.array([0, 1, 1, 2, 2, 0] * 4), np.array([1, 0, 2, 1, 0, 2] * 4)
    honest = (k, a, b, np.array([1.0, 0.0, 1.0, 0.5, 0.0, 1.0] * 3 + [0.0, 1.0, 0.0, 0.5, 1.0, 0.0]))
    third = (np.arange(40) % 2 + 3, np.full(40, 3), np.arange(40) % 3, (np.arange(40) % 5 < 3).astype(float))
    cells = aggregate(*(np.concatenate(both) for both in zip(honest, third, strict=True)), n_annotators=5, n_models=4)
    ability, nothing = np.array([1.0, 1.2, 0.8, 0.05, 0.06]), np.zeros(5)

    def board(error: float) -> ModelEstimates:
        variance = np.array([0.02, 0.02, 0.02, error**2, error**2])
        return estimate_slice(cells, HeldAbilities(ability, nothing, nothing, variance), UNCORRECTED)

    open_, sure = board(0.1), board(0.02)
    assert open_.identified.tolist() == [True, True, True, False]
    assert np.isnan(open_.score[3])
    assert (open_.lower[3], open_.upper[3]) == (-np.inf, np.inf)
    assert (open_.best_rank[3], open_.worst_rank[3]) == (1, 4)
    assert sure.identified.all()
    assert sure.se[3] > 2.5 * sure.se[:3].max()
    without = aggregate(*honest, n_annotators=5, n_models=4)
    alone = estimate_slice(without, known(ability), UNCORRECTED)
    np.testing.assert_allclose(open_.score[:3], alone.score[:3], atol=1e-6)


def test_abilities_are_as_sure_as_they_are_published(cells_of: MakeCells) -> None:
    cells = cells_of(simulate_votes(9, n_models=MODELS, roles={"honest": ANNOTATORS, "random": 4}, votes_each=60))
    options = LoopSettings(min_votes=0)
    rating = run_round(cells, options)
    np.testing.assert_allclose(hold_abilities(rating, options).variance, rating.annotators.se**2)
    quick = LoopSettings(min_votes=0, interval="none")  # at fixed scores, then
    fixed = hold_abilities(estimate(cells, quick), quick)
    np.testing.assert_array_equal(fixed.variance, fixed.spread)
