from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from app.rating.settings import LoopSettings, VerdictRule
from app.rating.simulation.worlds import SimulatedVotes, simulate_votes
from app.rating.uncertainty.covariance import contrast_errors
from app.rating.units import ELO_PER_NATURAL
from app.rating.verdict.confidence import (
    Growth,
    count_votes,
    find_first_settled,
    find_growth,
    forecast_verdicts,
    join_scores,
    measure_confidence,
    rank_probabilities,
)
from app.rating.verdict.forecasts import FEWEST, MOST, PATHS, STEPS, forecast_pairs, more_votes
from app.rating.verdict.order import (
    TUNED_TO,
    Confidence,
    JointScores,
    decide,
    equality_cost,
    order_cost,
    sequential_half_widths,
)
from app.rating.verdict.rating import Rating, estimate
from app.rating.votes.cells import Cells
from tests.fixtures.joint_scores import joint_of

RULE = VerdictRule(margin=5.0)


@pytest.fixture(scope="module")
def fitted(cells_of: Callable[[SimulatedVotes], Cells]) -> Rating:
    votes = simulate_votes(4, n_models=7, roles={"honest": 40}, votes_each=80)
    return estimate(cells_of(votes), LoopSettings())


@pytest.fixture(scope="module")
def joint(fitted: Rating) -> JointScores:
    found = join_scores(fitted)
    assert found is not None
    return found


def test_the_joint_scores_are_those_of_the_estimate(fitted: Rating, joint: JointScores) -> None:
    assert (np.diff(joint.score) < 0).all()
    scores = ELO_PER_NATURAL * fitted.fit.R
    np.testing.assert_allclose(joint.score, scores[joint.models])
    assert fitted.covariance is not None
    i, j = np.triu_indices(7, 1)
    expected = ELO_PER_NATURAL * contrast_errors(fitted.covariance.order, joint.models[i], joint.models[j])
    np.testing.assert_allclose(joint.errors[i, j], expected)
    np.testing.assert_allclose(contrast_errors(joint.covariance, i, j), expected)
    freedom = fitted.covariance.contrast_freedom(joint.models[i], joint.models[j], order=True)
    np.testing.assert_allclose(joint.contrast_freedom[i, j], freedom, rtol=0.05)
    assert count_votes(fitted, joint)[0].sum() == 2 * 40 * 80


def test_a_newcomer_widens_no_score_of_the_joint_distribution(joint: JointScores) -> None:
    """With one whose differences have errors of 1,000 points."""
    errors = np.full((8, 8), 1000.0)
    errors[:7, :7], errors[7, 7] = joint.errors, 0.0
    more = JointScores(np.arange(8), np.append(joint.score, -500.0), errors, np.append(joint.freedom, 2.0))
    np.testing.assert_allclose(np.diag(more.covariance)[:7], np.diag(joint.covariance), rtol=0.2)
    chances = rank_probabilities(more, 1)[:, 0]
    alone = rank_probabilities(joint, 1)[:, 0]
    np.testing.assert_allclose(chances[:7] / chances[:7].sum(), alone, atol=0.02)


def test_more_votes_of_the_same_kind_shrink_every_error_alike(fitted: Rating, joint: JointScores) -> None:
    growth = find_growth(joint, count_votes(fitted, joint)[0])
    np.testing.assert_allclose(growth.errors(0.0), joint.errors, atol=1e-6)
    np.testing.assert_allclose(growth.errors(3 * growth.votes), joint.errors / 2, atol=1e-6)
    np.testing.assert_allclose(growth.errors(9.0, np.arange(7) < 2), growth.errors(9.0)[:2, :2], atol=1e-6)


def test_votes_on_one_pair_are_worth_what_their_information_says(fitted: Rating, joint: JointScores) -> None:
    """Where Σ is the inverse information itself, Σ(m)⁻¹ = Σ⁻¹ + m p(1 − p)(e_i − e_j)(e_i − e_j)ᵀ."""
    votes, natural = count_votes(fitted, joint)[0], joint.gaps / ELO_PER_NATURAL
    worth = expit(natural) * expit(-natural)
    information = np.diag((votes * worth).sum(axis=1)) - votes * worth
    model = joint_of(joint.score.tolist(), ELO_PER_NATURAL**2 * np.linalg.pinv(information, hermitian=True))
    design = np.zeros((7, 7))
    design[0, 1] = design[1, 0] = 3.0  # only the shares count
    growth = find_growth(model, votes, design)
    e = np.eye(7)[0] - np.eye(7)[1]
    later = np.linalg.pinv(information + 500.0 * worth[0, 1] * np.outer(e, e), hermitian=True)
    expected = joint_of(joint.score.tolist(), ELO_PER_NATURAL**2 * later).errors
    np.testing.assert_allclose(growth.errors(500.0), expected, rtol=1e-6, atol=1e-6)
    assert growth.errors(500.0)[0, 1] < 0.9 * model.errors[0, 1]


@pytest.mark.parametrize("pairs", [[], [(0, 1), (2, 3)]])
def test_where_other_votes_gave_the_scores_a_vote_is_worth_what_the_model_says(pairs: list[tuple[int, int]]) -> None:
    """Votes between the models do not link them: their scores come through models without a rank."""
    joint, votes = joint_of([60.0, 20.0, -10.0, -70.0], np.diag([900.0, 400.0, 400.0, 900.0])), np.zeros((4, 4))
    for i, j in pairs:
        votes[i, j] = votes[j, i] = 40.0
    alike = find_growth(joint, votes, total=30.0)
    np.testing.assert_allclose(alike.errors(90.0), joint.errors / 2)
    design = np.zeros((4, 4))
    design[0, 2] = design[2, 0] = 1.0
    growth = find_growth(joint, votes, design, total=30.0)
    np.testing.assert_allclose(growth.errors(0.0), joint.errors)
    natural = 70.0 / ELO_PER_NATURAL
    if not pairs:
        worth = expit(natural) * expit(-natural) / ELO_PER_NATURAL**2
        later = 1.0 / (1.0 / joint.errors[0, 2] ** 2 + 50.0 * worth)
        assert growth.errors(50.0)[0, 2] ** 2 == pytest.approx(later)
    assert 0.5 * joint.errors[0, 2] < growth.errors(50.0)[0, 2] < 0.99 * joint.errors[0, 2]


def test_models_that_met_through_others_alone_have_a_forecast(fitted: Rating) -> None:
    """The ranked ones of an arena in which they have no vote with each other."""
    unranked = ~np.isin(np.arange(7), [0, 1])
    pairs = fitted.pairs
    apart = replace(
        fitted, models=replace(fitted.models, provisional=unranked),
        pairs=pairs.where(unranked[pairs.model_a] | unranked[pairs.model_b]),
    )  # fmt: skip
    for design in (None, np.ones((7, 7)) - np.eye(7)):
        known = measure_confidence(apart, RULE, design)
        assert known is not None
        assert known.votes > 0
        assert not np.isnan(known.forecasts).any()
        assert (known.doubled < known.joint.errors)[0, 1]


def test_the_first_step_is_that_of_the_definition() -> None:
    """Every step of every path is decided from scratch."""
    generator = np.random.default_rng(3)
    steps, paths, n = 6, 12, 4
    scores = generator.normal(0, 40, (steps, paths, n)).cumsum(axis=0)
    variances = [np.diag(generator.uniform(20, 400, n)) / (step + 1) for step in range(steps)]
    errors = np.stack([joint_of([0.0] * n, variance).errors for variance in variances])
    first, rule = np.full((n - 1, paths), steps), VerdictRule(0.95, 30.0)
    of_order, of_equality = np.array([order_cost(rule, k, n) for k in range(1, n)]), equality_cost(rule, n)
    find_first_settled(scores, np.argsort(-scores, axis=2), errors, TUNED_TO, of_order, of_equality, 30.0, first)
    for path in range(paths):
        for k in range(1, n):
            expected = steps
            for step in range(steps - 1, -1, -1):
                order = np.argsort(-scores[step, path])
                there = errors[step][np.ix_(order, order)]
                joint = JointScores(order, scores[step, path][order], there, np.full(n, np.inf))
                if decide(joint, k, rule).verdict != "not-yet":
                    expected = step
            assert first[k - 1, path] == expected
    assert len(np.unique(first)) > 2


def test_a_forecast_is_the_distribution_of_what_comes() -> None:
    """Two models: scores that move as they will, vote by vote, drawn apart from the forecast."""
    joint, costs = joint_of([12.0, 0.0], np.eye(2) * 18.0), (order_cost(RULE, 1, 2), equality_cost(RULE, 2))
    growth = Growth(np.array([[3.0], [-3.0]]), np.array([1e-3]), 1000.0)
    forecast = forecast_verdicts(joint, growth, 1, RULE, paths=2000)[0]
    generator, ahead = np.random.default_rng(11), more_votes(1000.0)
    left = 1 / (1 + 1e-3 * ahead)
    moves = np.sqrt(np.diff(1 - left, prepend=0.0)) * generator.standard_normal((2000, STEPS)) * 6.0
    gaps = 12.0 + moves.cumsum(axis=1)
    known = np.full(STEPS, np.inf)
    half, wide = (sequential_half_widths(6.0 * np.sqrt(left), known, cost) for cost in costs)
    settled = (np.abs(gaps) > half) | (np.abs(gaps) + wide <= RULE.margin)
    ends = np.where(settled.any(axis=1), ahead[settled.argmax(axis=1)], np.inf)
    expected = np.sort(ends)[[200, 1000, 1800]]
    step = ahead[1] / ahead[0]
    for found, wanted in zip(forecast, expected, strict=True):
        assert found == wanted or wanted / step * 0.99 <= found <= wanted * step * 1.01
    alone = forecast_pairs(
        np.array([12.0]), joint.errors[:1, 1], joint.errors[:1, 1] / np.sqrt(2), np.array([np.inf]),
        votes=1000.0, costs=costs, margin=RULE.margin, paths=2000,
    )  # fmt: skip
    for found, wanted in zip(alone[0], expected, strict=True):
        assert found == wanted or wanted / step * 0.99 <= found <= wanted * step * 1.01


def test_what_is_decided_needs_the_fewest_and_what_is_even_the_most() -> None:
    growth = Growth(np.array([[1.0], [-1.0]]), np.array([1e-3]), 1000.0)
    decided = joint_of([900.0, 0.0], np.eye(2) * 2.0)
    assert forecast_verdicts(decided, growth, 1, RULE).tolist() == [[FEWEST * 1000.0] * 3]
    even = Growth(np.array([[300.0], [-300.0]]), np.array([1e-6]), 1000.0)
    unknown = joint_of([0.0, 0.0], np.eye(2) * 2.0 * 300**2)
    assert forecast_verdicts(unknown, even, 1, RULE).tolist() == [[np.inf] * 3]
    never = forecast_pairs(
        np.array([5.0]), np.array([50.0]), np.array([50.0]), np.array([np.inf]),
        votes=100.0, costs=(6.0, 6.0), margin=1.0, paths=PATHS,
    )  # fmt: skip
    assert never[0].tolist() == [np.inf] * 3, "no vote of the design is on this pair"
    assert more_votes(100.0)[-1] == MOST * 100.0


def test_everything_of_a_leaderboard(fitted: Rating) -> None:
    known = measure_confidence(fitted, RULE)
    assert isinstance(known, Confidence)
    assert (known.votes, known.unscored.number, known.within.shape, known.forecasts.shape) == (
        3200.0,
        0,
        (7, 7),
        (6, 3),
    )
    np.testing.assert_allclose(known.doubled, known.joint.errors / np.sqrt(2), atol=1e-6)
    for k in range(1, 7):
        assert known.decide(k).verdict == decide(known.joint, k, RULE).verdict
        low, median, high = known.forecasts[k - 1]
        assert low <= median <= high
    decided = [known.decide(k).verdict == "decided" for k in range(1, 7)]
    assert any(decided)
    assert not all(decided)
    of_neighbours = np.zeros((7, 7))
    of_neighbours[known.joint.models[0], known.joint.models[1]] = 1.0
    of_neighbours += of_neighbours.T
    aimed = measure_confidence(fitted, RULE, of_neighbours)
    assert aimed is not None
    assert aimed.doubled[0, 1] < 0.8 * known.doubled[0, 1]
    assert aimed.doubled[5, 6] > 1.3 * known.doubled[5, 6]


def test_a_group_with_the_same_votes_on_other_models_is_as_sure(fitted: Rating) -> None:
    cells, number = fitted.cells, fitted.cells.n_models
    order = np.argsort(np.tile(cells.annotator, 2), kind="stable")
    twice = {name: np.tile(getattr(cells, name), 2)[order] for name in ("annotator", "n", "s", "ties")}
    models = {
        name: np.concatenate([getattr(cells, name), getattr(cells, name) + number])[order].astype(np.int32)
        for name in ("model_a", "model_b")
    }
    both = estimate(replace(cells, **twice, **models, n_models=2 * number), LoopSettings())
    design = np.ones((2 * number, 2 * number))
    design[number:] = design[:, number:] = 0.0
    first, second, third = (measure_confidence(both, RULE, component=component) for component in range(3))
    assert first is not None
    assert second is not None
    assert third is None
    assert second.joint.models.tolist() == (first.joint.models + number).tolist()
    np.testing.assert_allclose(second.within, first.within, atol=0.01)
    np.testing.assert_allclose(second.joint.errors, first.joint.errors, rtol=1e-4)
    no_battle = measure_confidence(both, RULE, design, 1)
    assert no_battle is not None
    np.testing.assert_allclose(no_battle.forecasts, second.forecasts)


def test_a_leaderboard_without_intervals_has_none(fitted: Rating) -> None:
    assert measure_confidence(replace(fitted, covariance=None), RULE) is None


def test_models_too_far_apart_for_information_leave_the_rest_as_it_is() -> None:
    votes = np.ones((3, 3)) - np.eye(3)
    joint = joint_of([60_000.0, 10.0, 0.0], np.diag([400.0, 100.0, 100.0]))
    growth = find_growth(joint, votes)
    np.testing.assert_allclose(growth.errors(growth.votes), joint.errors / np.sqrt(2), rtol=1e-3)


def test_small_crowds_have_a_verdict_of_finite_numbers(cells_of: Callable[[SimulatedVotes], Cells]) -> None:
    """With few annotators the covariance has fewer directions than the models."""
    generator, seen = np.random.default_rng(6), 0
    for seed in range(12):
        models, annotators, each = generator.integers((2, 1, 2), (7, 6, 20)).tolist()
        votes = simulate_votes(seed, n_models=models, roles={"honest": annotators}, votes_each=each)
        known = measure_confidence(estimate(cells_of(votes), LoopSettings(min_votes=0)), RULE)
        if known is None:
            continue
        seen += 1
        assert np.isfinite(known.within).all()
        assert np.isfinite(known.doubled).all()
        assert not np.isnan(known.forecasts).any()
        assert all(known.decide(k).verdict in {"not-yet", "equal", "decided"} for k in range(1, len(known.joint.score)))
    assert seen > 6
