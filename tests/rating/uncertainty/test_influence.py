from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from app.rating.plain.likelihood import Likelihood
from app.rating.settings import LoopSettings
from app.rating.simulation.worlds import SimulatedVotes, simulate_votes
from app.rating.uncertainty.influence import VoteChange, find_influence, leave_annotators_out
from app.rating.units import ELO_PER_NATURAL
from app.rating.verdict.fragility import find_fragility
from app.rating.verdict.rating import Rating, estimate
from app.rating.verdict.round import run_round
from app.rating.votes.cells import Cells, aggregate
from stable_arena_lab.verified import change_votes, verify_annotators, verify_votes

MakeCells = Callable[[SimulatedVotes], Cells]
QUIET = LoopSettings(min_votes=0, interval="none")
METHODS = {
    "robust": QUIET,
    "votes alike": replace(QUIET, influence_limit=None),
    "plain": LoopSettings(min_votes=0, interval="none", prior_sd=None),
    "m-elo": LoopSettings(min_votes=0, interval="none", method="m-elo"),
}


@pytest.fixture(scope="module")
def cells(cells_of: MakeCells) -> Cells:
    return cells_of(simulate_votes(5, n_models=8, roles={"honest": 40, "random": 3}, votes_each=80))


def refitted_without(cells: Cells, settings: LoopSettings, estimate_of_all: Rating) -> np.ndarray:
    """Published changes of score, annotator by annotator, by refitting."""
    base = estimate(cells, settings).models.score
    rows = [
        estimate(cells.where(cells.annotator != k), settings).models.score - base
        for k in estimate_of_all.small.annotators
    ]
    return np.array(rows)[:, estimate_of_all.small.models]


@pytest.mark.parametrize(
    "method",
    [
        "robust",
        "plain",
        "m-elo",
        *(pytest.param(name, marks=pytest.mark.campaign) for name in ("votes alike",)),
    ],
)
def test_leaving_an_annotator_out_is_foreseen(cells: Cells, method: str) -> None:
    settings = METHODS[method]
    result = estimate(cells, settings)
    foreseen = leave_annotators_out(find_influence(result))
    true = refitted_without(cells, settings, result)
    # the crowd's law is taken to stay as it is
    least = 0.98 if method in ("robust", "votes alike") else 0.995
    assert np.corrcoef(foreseen.ravel(), true.ravel())[0, 1] > least
    assert np.linalg.norm(foreseen - true) < np.sqrt(1 - least**2) * np.linalg.norm(true)


def test_the_step_is_a_whole_newton_step_not_only_a_derivative() -> None:
    """An annotator with a third of all votes: S without them is far from S."""
    votes = simulate_votes(6, n_models=6, roles={"honest": 9}, votes_each=120)
    large = np.where(votes.annotator < 4, 0, votes.annotator)
    cells = aggregate(large, votes.model_a, votes.model_b, votes.outcome, **votes.sizes)
    settings = METHODS["m-elo"]
    result = estimate(cells, settings)
    influence = find_influence(result)
    foreseen = leave_annotators_out(influence)[0]
    true = refitted_without(cells, settings, result)[0]
    likelihood = Likelihood(result.small.cells)
    own = np.where(likelihood.cells.annotator == 0, likelihood.contributions(result.fit.R, result.fit.theta), 0.0)
    slope = ELO_PER_NATURAL * influence.solve(-likelihood.by_model(own))
    assert np.linalg.norm(foreseen - true) < 0.6 * np.linalg.norm(slope - true)


def test_groups_that_one_annotator_alone_links_keep_their_distance() -> None:
    """Annotator 5 alone compared 0 and 1 with 2 and 3; without those votes nothing says how far apart they are."""
    generator = np.random.default_rng(3)
    a = np.concatenate([generator.integers(0, 2, 200) * 2, np.tile([0, 1], 20)])
    b = np.concatenate([a[:200] + 1, np.tile([2, 3], 20)])
    annotator = np.concatenate([np.arange(200) % 5, np.full(40, 5)])
    outcome = np.concatenate([generator.integers(0, 2, 200), np.tile([1, 0, 1, 0, 0, 0, 1, 1], 5)]).astype(float)
    cells = aggregate(annotator, a, b, outcome, n_annotators=6, n_models=4)
    result = estimate(cells, METHODS["m-elo"])
    change = leave_annotators_out(find_influence(result))[5]
    assert change[:2].sum() == pytest.approx(0.0, abs=1e-3)
    apart = run_round(cells.where(cells.annotator != 5), METHODS["m-elo"]).models.score
    before = run_round(cells, METHODS["m-elo"]).models.score
    np.testing.assert_allclose(change[1] - change[0], (apart - before)[1] - (apart - before)[0], rtol=0.1)


@pytest.mark.parametrize(
    ("method", "change"),
    [
        *((name, "dropped") for name in ("robust", "plain", "m-elo")),
        ("robust", "flipped"),
        ("robust", "added"),
        *(pytest.param(name, "dropped", marks=pytest.mark.campaign) for name in ("votes alike",)),
        pytest.param("votes alike", "flipped", marks=pytest.mark.campaign),
    ],
)
def test_a_votes_influence_is_what_changing_it_does(cells: Cells, method: str, change: VoteChange) -> None:
    settings = METHODS[method]
    result = estimate(cells, settings)
    influence = find_influence(result)
    contrast = np.zeros(8)
    contrast[1], contrast[5] = 1.0, -1.0
    held = influence.of_votes(contrast, change)
    shown = np.linspace(0, len(held) - 1, 30).astype(int)
    fit, votes = result.fit, influence.vote_groups(change)
    true = [
        fit.R @ contrast
        - estimate(change_votes(cells, change, votes.cell[[v]], votes.kind[[v]]), settings).fit.R @ contrast
        for v in shown
    ]
    # An added vote changes more than any other: half of them are verdicts that the annotator would not give.
    assert np.corrcoef(held[shown], true)[0, 1] > (0.96 if change == "added" or method == "robust" else 0.975)
    assert np.polyfit(held[shown], true, 1)[0] == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize("method", ["robust", "m-elo"])
def test_the_smallest_sets_are_close_to_what_refits_find(cells: Cells, method: str) -> None:
    settings = METHODS[method]
    result = estimate(cells, settings)
    influence = find_influence(result)
    found = find_fragility(result, influence)
    board = result.models
    assert found.upper.tolist() == np.argsort(-board.score)[:-1].tolist()
    np.testing.assert_allclose(found.gap, board.score[found.upper] - board.score[found.lower], atol=1e-9)
    verified = [
        verify_votes(result, settings, upper, lower, influence)
        for upper, lower in zip(found.upper.tolist(), found.lower.tolist(), strict=True)
    ]
    assert all(count > 0 for count in verified)
    small = found.swap.dropped <= 60  # what more votes do does not add up
    assert small.sum() >= 3
    np.testing.assert_allclose(found.swap.dropped[small], np.array(verified)[small], rtol=0.25, atol=2)
    assert (found.swap.dropped >= np.array(verified) - 2).all()
    assert found.tied.tolist() == (found.swap.dropped <= 5).tolist()


@pytest.mark.parametrize("change", ["flipped", "added"])
def test_the_smallest_flips_and_additions_are_close_to_what_refits_find(cells: Cells, change: VoteChange) -> None:
    result = estimate(cells, QUIET)
    influence = find_influence(result)
    found = find_fragility(result, influence)
    counts = getattr(found.swap, change)
    few = np.flatnonzero(counts <= 30)
    assert len(few) >= 2
    verified = [
        verify_votes(result, QUIET, int(found.upper[pair]), int(found.lower[pair]), influence, change) for pair in few
    ]
    # What more votes do does not add up, least of all where they are added.
    np.testing.assert_allclose(counts[few], verified, rtol=0.4, atol=1)


def test_the_verified_number_swaps_and_one_less_does_not(cells: Cells) -> None:
    result = estimate(cells, QUIET)
    influence = find_influence(result)
    found = find_fragility(result, influence)
    closest = int(np.argmin(found.gap))
    upper, lower = int(found.upper[closest]), int(found.lower[closest])
    number = verify_votes(result, QUIET, upper, lower, influence)
    contrast = np.zeros(8)
    contrast[upper], contrast[lower] = 1.0, -1.0
    votes = influence.vote_groups()
    order = np.argsort(-influence.of_votes(contrast), kind="stable")
    each = np.repeat(order, votes.size[order].astype(int))
    gaps = []
    for count in (number - 1, number):
        left = change_votes(cells, "dropped", votes.cell[each[:count]], votes.kind[each[:count]])
        gaps.append(estimate(left, QUIET).fit.R @ contrast)
    assert gaps[0] >= 0 > gaps[1]


def test_annotators_whose_removal_swaps_are_verified(cells: Cells) -> None:
    result = estimate(cells, QUIET)
    found = find_fragility(result)
    closest = int(np.argmin(found.gap))
    upper, lower = int(found.upper[closest]), int(found.lower[closest])
    number = verify_annotators(result, QUIET, upper, lower)
    assert abs(number - int(found.swap.annotators[closest])) <= 1


def test_a_lead_that_no_removal_ends_is_said_to_have_none() -> None:
    """Model 0 won 30 of 31 against 1: without the wins it has no score at all."""
    outcome = np.array([1.0] * 30 + [0.0])
    zero = np.zeros(31, dtype=int)
    cells = aggregate(zero, zero, zero + 1, outcome, n_annotators=1, n_models=2)
    result = estimate(cells, METHODS["m-elo"])
    assert verify_annotators(result, METHODS["m-elo"], 0, 1) == -1
    assert find_fragility(result).swap.annotators.tolist() == [-1]


def test_removing_votes_from_a_cell() -> None:
    zero = np.zeros(4, dtype=int)
    cells = aggregate(zero, zero, zero + 1, np.array([1.0, 1.0, 0.5, 0.0]), n_annotators=1, n_models=2)
    left = change_votes(cells, "dropped", np.array([0, 0]), np.array([0, 1]))
    assert (left.n.tolist(), left.s.tolist(), left.ties.tolist()) == ([2.0], [1.0], [0.0])
    assert len(change_votes(cells, "dropped", zero, np.array([0, 0, 1, 2])).n) == 0


def test_flipping_and_adding_votes_of_a_cell() -> None:
    zero = np.zeros(4, dtype=int)
    cells = aggregate(zero, zero, zero + 1, np.array([1.0, 1.0, 0.5, 0.0]), n_annotators=1, n_models=2)
    flipped = change_votes(cells, "flipped", np.array([0, 0, 0]), np.array([0, 1, 0]))
    assert (flipped.n.tolist(), flipped.s.tolist(), flipped.ties.tolist()) == ([4.0], [0.5], [1.0])
    added = change_votes(cells, "added", np.array([0, 0, 0]), np.array([0, 2, 2]))
    assert (added.n.tolist(), added.s.tolist(), added.ties.tolist()) == ([7.0], [3.5], [1.0])


def test_leaving_out_an_annotator_with_a_third_of_the_votes_is_foreseen(cells_of: MakeCells) -> None:
    votes = simulate_votes(6, n_models=6, roles={"honest": 12}, votes_each=120)
    large = np.where(votes.annotator < 4, 0, votes.annotator)
    cells = cells_of(replace(votes, annotator=large))
    result = estimate(cells, QUIET)
    foreseen = leave_annotators_out(find_influence(result))[0]
    true = refitted_without(cells, QUIET, result)[0]
    assert np.linalg.norm(foreseen - true) < 0.15 * np.linalg.norm(true)


@pytest.mark.campaign
def test_influence_agrees_with_refits_on_real_votes(real_cells: Callable[[str], Cells]) -> None:
    cells = real_cells("llmfao.csv")
    settings = LoopSettings(interval="none")
    result = estimate(cells, settings)
    foreseen = leave_annotators_out(find_influence(result))
    true = refitted_without(cells, settings, result)
    assert np.corrcoef(foreseen.ravel(), true.ravel())[0, 1] >= 0.99


@pytest.mark.parametrize("name", ["robust", "m-elo"])
def test_without_the_only_annotator_nothing_is_known(name: str) -> None:
    cells = aggregate(
        np.zeros(6, int), np.array([0, 0, 0, 1, 1, 1]), np.array([1, 1, 1, 2, 2, 2]), np.array([1, 1, 0, 1, 1, 0.0]),
        n_annotators=1, n_models=3,
    )  # fmt: skip
    result = estimate(cells, METHODS[name])
    assert np.isnan(leave_annotators_out(find_influence(result))).all()
    assert (find_fragility(result).swap.annotators == -1).all()
