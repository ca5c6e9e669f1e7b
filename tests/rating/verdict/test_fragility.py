"""Few are looked at, the right ones: `find_fragility` against sorting everything."""

from dataclasses import replace

import numpy as np
import pytest

from app.rating.errors import VotesError
from app.rating.settings import LoopSettings
from app.rating.uncertainty.influence import Influence, VoteChange, find_influence, leave_annotators_out
from app.rating.units import ELO_PER_NATURAL
from app.rating.verdict import fragility
from app.rating.verdict.fragility import CHANGES, fewest_votes, find_fragility
from app.rating.verdict.rating import Rating, estimate
from stable_arena_lab import verified
from stable_arena_lab.attacks.arena import Setup, draw_arena


@pytest.fixture(scope="module")
def result() -> Rating:
    arena = draw_arena(3, "none", Setup(n_annotators=60, votes_each=80))
    return estimate(arena.votes.cells(), LoopSettings(min_votes=0, interval="none"))


@pytest.fixture(scope="module")
def influence(result: Rating) -> Influence:
    return find_influence(result)


def smallest(held: np.ndarray, gap: float) -> int:
    """How many, the largest first, add up to more than the gap; −1 if all do not."""
    total = np.cumsum(np.sort(held[held > 0])[::-1])
    return 1 + int(np.argmax(total > gap)) if len(total) and total[-1] > gap else -1


def votes_by_sorting(
    influence: Influence, upper: np.ndarray, lower: np.ndarray, gap: np.ndarray, change: VoteChange = "dropped"
) -> list[int]:
    """Look at all votes for every pair."""
    size = influence.vote_groups(change).size.astype(int)
    found = []
    for pair, (i, j) in enumerate(zip(upper, lower, strict=True)):
        contrast = np.zeros(influence.rating.small.cells.n_models)
        contrast[i], contrast[j] = 1.0, -1.0
        found.append(smallest(np.repeat(influence.of_votes(contrast, change), size), gap[pair]))
    return found


def test_the_smallest_sets_are_those_of_a_full_sort(result: Rating, influence: Influence) -> None:
    found = find_fragility(result, influence)
    change = leave_annotators_out(influence)
    gap = result.fit.R[found.upper] - result.fit.R[found.lower]
    assert len(found.upper) == 19
    for way in CHANGES:
        expected = votes_by_sorting(influence, found.upper, found.lower, gap, way)
        assert getattr(found.swap, way).tolist() == expected, way
    for pair, (i, j) in enumerate(zip(found.upper, found.lower, strict=True)):
        points = found.gap[pair] / gap[pair]
        assert found.swap.annotators[pair] == smallest((change[:, j] - change[:, i]) / points, gap[pair])
    assert found.tied.tolist() == [0 <= votes <= 5 for votes in found.swap.dropped]


def test_the_best_change_with_the_easiest_pair_across_the_line(result: Rating, influence: Influence) -> None:
    best_first, change = np.argsort(-result.fit.R), leave_annotators_out(influence)
    found = find_fragility(result, influence)
    for k in range(1, 11):
        inside, outside = best_first[max(0, k - 3) : k], best_first[k : k + 3]
        upper, lower = np.repeat(inside, len(outside)), np.tile(outside, len(inside))
        gap = result.fit.R[upper] - result.fit.R[lower]
        for way in CHANGES:
            counts = [count for count in votes_by_sorting(influence, upper, lower, gap, way) if count >= 0]
            assert getattr(found.best, way)[k - 1] == min(counts), (k, way)
        pairs = zip(upper, lower, gap, strict=True)
        points = ELO_PER_NATURAL
        removed = [smallest((change[:, j] - change[:, i]) / points, far) for i, j, far in pairs]
        assert found.best.annotators[k - 1] == min((count for count in removed if count >= 0), default=-1)
    assert len(found.best.dropped) == 10


def test_models_without_a_rank_are_no_neighbours(result: Rating, influence: Influence) -> None:
    ranked = np.ones(20, dtype=bool)
    second = int(np.argsort(-result.fit.R)[1])
    ranked[second] = False
    found = find_fragility(result, influence, ranked=ranked)
    assert second not in {*found.upper.tolist(), *found.lower.tolist()}
    assert len(found.upper) == 18
    whole = find_fragility(result, influence)
    assert found.swap.dropped[1:].tolist() == whole.swap.dropped[2:].tolist()


@pytest.mark.parametrize("at_once", [128, 7])
@pytest.mark.parametrize("change", CHANGES)
def test_many_pairs_have_the_numbers_of_a_full_sort(
    influence: Influence, monkeypatch: pytest.MonkeyPatch, at_once: int, change: VoteChange
) -> None:
    """Every pair of models, close ones and such as no number of removals brings together."""
    monkeypatch.setattr(fragility, "PAIRS_AT_ONCE", at_once)
    R = influence.rating.fit.R
    best_first = np.argsort(-R)
    upper, lower = (best_first[side] for side in np.triu_indices(len(R), 1))
    gap = R[upper] - R[lower]
    expected = votes_by_sorting(influence, upper, lower, gap, change)
    assert fewest_votes(influence, upper, lower, gap)[CHANGES.index(change)].tolist() == expected
    never = sum(number < 0 for number in expected)
    assert never < len(expected)
    assert never > 0 or change != "dropped"


def test_one_vote_swaps_models_with_the_same_score(influence: Influence) -> None:
    upper, lower = np.triu_indices(20, 1)
    assert fewest_votes(influence, upper, lower, np.zeros(len(upper)))[0].tolist() == [1] * len(upper)


def test_repeated_votes_are_counted_one_by_one() -> None:
    """Every vote three times over: cells and verdicts of several votes, of which part may be enough."""
    votes = draw_arena(4, "none", Setup(n_annotators=40, votes_each=60)).votes.cells()
    repeated = replace(votes, n=3 * votes.n, s=3 * votes.s, ties=3 * votes.ties)
    influence = find_influence(estimate(repeated, LoopSettings(min_votes=0, interval="none")))
    R = influence.rating.fit.R
    best_first = np.argsort(-R)
    upper, lower = best_first[:-1], best_first[1:]
    gap = R[upper] - R[lower]
    assert influence.vote_groups().size.max() >= 3
    assert fewest_votes(influence, upper, lower, gap)[0].tolist() == votes_by_sorting(influence, upper, lower, gap)


@pytest.mark.parametrize("guess", [1, 3, 37, 64, 1000])
@pytest.mark.parametrize("smallest", [1, 2, 37, 64, 100])
def test_the_smallest_number_is_found_from_any_guess(smallest: int, guess: int) -> None:
    assert verified.smallest(lambda number: number >= smallest, guess, 100) == smallest


def test_no_number_is_found_where_none_will_do_or_too_many_fits_would_be_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert verified.smallest(lambda _: False, 3, 5) == -1
    monkeypatch.setattr(verified, "MOST_REFITS", 2)
    assert verified.smallest(lambda number: number >= 37, 1, 100) == -1


def test_what_was_found_before_a_fit_fails_stands() -> None:
    def swapped(number: int) -> bool:
        if number < 10:
            raise VotesError("no answer")
        return True

    assert verified.smallest(swapped, 16, 100) == 16
    assert verified.smallest(swapped, 5, 100) == -1
