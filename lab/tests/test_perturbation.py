from functools import partial

import numpy as np
import pytest

from stable_arena_lab.arenas import Arena, paper_arena
from stable_arena_lab.perturbation import RULES, STRATEGIES, Strategy, perturb, perturb_and_rate


@pytest.fixture(scope="module")
def changed() -> dict[Strategy, tuple[np.ndarray, np.ndarray]]:
    """Verdicts before and after, of a perturbed annotator; strategy → (before, after)."""
    before = np.tile([1.0, 0.0, 0.5], 4_000)
    annotator, bad = np.repeat([0, 1], 6_000), np.array([False, True])
    results: dict[Strategy, tuple[np.ndarray, np.ndarray]] = {}
    for strategy in STRATEGIES:
        after = perturb(before, annotator, bad, strategy, np.random.default_rng(1))
        np.testing.assert_array_equal(after[:6_000], before[:6_000])
        results[strategy] = before[6_000:], after[6_000:]
    return results


def test_ties_stay_ties(changed: dict[Strategy, tuple[np.ndarray, np.ndarray]]) -> None:
    for before, after in changed.values():
        assert (after[before == 0.5] == 0.5).all()


def test_random_never_lets_the_winner_win(changed: dict[Strategy, tuple[np.ndarray, np.ndarray]]) -> None:
    before, after = changed["random"]
    decided = before != 0.5
    assert (after[decided] != before[decided]).all()
    assert np.mean(after[decided] == 0.5) == pytest.approx(0.5, abs=0.03)


def test_equal_ties_everything_and_flip_turns_everything(
    changed: dict[Strategy, tuple[np.ndarray, np.ndarray]],
) -> None:
    assert (changed["equal"][1] == 0.5).all()
    before, after = changed["flip"]
    np.testing.assert_array_equal(after, 1.0 - before)


def test_mixed_draws_among_the_three_for_each_vote(changed: dict[Strategy, tuple[np.ndarray, np.ndarray]]) -> None:
    before, after = changed["mixed"]
    decided = before != 0.5
    assert (after[decided] != before[decided]).all()
    assert np.mean(after[decided] == 0.5) == pytest.approx(1 / 2 * 1 / 3 + 1 / 3, abs=0.03)


def test_flipped_annotators_are_found_and_cost_am_elo_little_order() -> None:
    """Their votes count no more, so it has 70 % of the votes: as if they had not voted."""
    stabilities, detections, _ = perturb_and_rate(paper_arena, range(3), strategies=["flip"], shares=[0.3], shuffles=10)
    for row in detections:
        assert row.f1 is not None
        assert row.f1 >= 0.9
        assert row.wronged == 0.0
    kept = {row.method: row for row in stabilities}
    robust, m_elo = kept["am-elo robust"], kept["m-elo"]
    assert robust.consistency is not None
    assert m_elo.consistency is not None
    assert robust.consistency > 0.96
    assert m_elo.consistency < 0.95
    assert robust.left is not None
    assert robust.left < 0.4
    assert robust.truth is not None
    assert m_elo.left == pytest.approx(1.0)


def test_a_threshold_above_zero_finds_annotators_who_always_tie() -> None:
    _, detections, points = perturb_and_rate(paper_arena, [0], strategies=["equal"], shares=[0.2], shuffles=2)
    f1 = {row.rule: row.f1 for row in detections if row.method == "am-elo robust"}
    assert f1["0.2, the default"] == f1["0.21 of the mean"] == 1.0
    assert f1["0"] == 0.0  # the prior holds them just above
    assert all(row.f1 == 1.0 for row in detections if row.method == "am-elo plain")
    assert len(points) == 2 * 42
    for method in ("am-elo plain", "am-elo robust"):
        own = [point for point in points if point.method == method]
        for published, paper in (("before", "paper_before"), ("after", "paper_after")):
            total = sum(getattr(point, published) for point in own)
            assert [getattr(p, paper) for p in own] == pytest.approx([getattr(p, published) / total for p in own])
    for point in points:
        assert abs(point.after) < 0.1 if point.perturbed else point.after > 0.3


def test_nothing_changes_without_perturbed_annotators(arena: Arena) -> None:
    stabilities, detections, _ = perturb_and_rate(
        partial(_same, arena), [0], strategies=["random"], shares=[0.0], shuffles=200
    )
    kept = {row.method: row for row in stabilities}
    for method in ("m-elo", "am-elo plain", "am-elo robust"):
        assert kept[method].consistency == 1.0
    assert kept["m-elo"].left is None
    assert all(row.f1 is None and row.found is None for row in detections)


@pytest.mark.campaign
def test_half_the_crowd_against_the_other_half_is_refused_or_reversed() -> None:
    stabilities, *_ = perturb_and_rate(paper_arena, range(2), strategies=["flip"], shares=[0.5], shuffles=2)
    plain = next(row for row in stabilities if row.method == "am-elo plain")
    assert plain.answered < plain.repeats or (plain.consistency or 0.0) < 0.9


def test_the_papers_threshold_is_a_fifth_of_the_mean_at_its_42_annotators() -> None:
    ability = np.linspace(0.5, 1.9, 42)
    epsilon = RULES["0.21 of the mean"](ability)
    assert epsilon / ability.sum() == pytest.approx(0.005)


def _same(arena: Arena, _seed: int) -> Arena:
    return arena
