"""The figures that a reviewer sees, against values worked out by hand."""

from dataclasses import replace
from datetime import UTC, datetime
from math import erfc, sqrt
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from app.annotators.schemas import Annotator
from app.rating.settings import EVIDENCE_TESTS
from app.rating.simulation.worlds import simulate_votes
from app.rating.units import ELO_PER_NATURAL
from app.review.evidence.annotator_votes import AnnotatorVotes
from app.review.evidence.expectations import PublishedScores, expect, find_tie_weight
from app.review.evidence.figures import compare_models, compare_sides, compare_ties, find_agreement, measure_drift
from app.review.evidence.pace import measure_pace
from app.review.evidence.reasons import (
    BEHAVIOURS,
    RuleUsed,
    describe_findings,
    describe_reasons,
    format_odds,
    format_ratio,
    strong_findings,
)
from app.review.evidence.summary import describe_drift

NAMES = {1: "one", 2: "two", 3: "three"}
NEVER = np.nan


def votes_of(
    pairs: list[tuple[int, int, int]], *, gaps: dict[int, float], ability: float = 1.0, tie_weight: float = 0.0
) -> AnnotatorVotes:
    """Votes (model_a, model_b, outcome) where models stand so many natural units above the middle."""
    model_a, model_b, outcome = (np.array(column) for column in zip(*pairs, strict=True))
    gap = np.array([gaps.get(a, np.nan) - gaps.get(b, np.nan) for a, b in zip(model_a, model_b, strict=True)])
    known, nothing = gap[np.isfinite(gap)], np.full(len(gap), NEVER)
    return AnnotatorVotes(
        [UUID(int=i) for i in range(len(gap))], model_a, model_b, outcome, nothing, nothing,
        np.zeros(len(gap), dtype=bool), gap, nothing, ability,
        tie_weight, own=expect(known, ability, tie_weight), typical=expect(known, 1.0, tie_weight),
    )  # fmt: skip


def make_annotator(**figures: Any) -> Annotator:
    """Return an annotator with these figures; all others are unknown."""
    unknown = dict.fromkeys(Annotator.model_fields)
    known = {"id": UUID(int=1), "annotator": "a", "votes": 100, "standing": "flagged", "rule_standing": "flagged"}
    return Annotator.model_validate({**unknown, **known, **figures})


@pytest.mark.parametrize("ability", [-0.7, 0.0, 1.0, 1.75])
@pytest.mark.parametrize("tie_weight", [0.0, 0.4, 30.0])
def test_the_three_outcomes_keep_the_published_expectation(ability: float, tie_weight: float) -> None:
    gap = np.linspace(-6, 6, 41)
    expected = expect(gap, ability, tie_weight)
    np.testing.assert_allclose(expected.left + expected.right + expected.tie, 1.0)
    np.testing.assert_allclose(expected.left + expected.tie / 2, 1 / (1 + np.exp(-ability * gap)), atol=1e-9)
    np.testing.assert_allclose(expected.tie**2, tie_weight**2 * expected.left * expected.right, rtol=1e-6)
    np.testing.assert_array_equal(expected.of(np.full(41, 3)), expected.tie)


def test_ties_are_expected_as_often_as_the_crowd_calls_them() -> None:
    gap = np.linspace(-0.3, 0.3, 50)
    for wanted in (0.0, 0.05, 0.4, 0.9):
        weight = find_tie_weight(gap, np.full(50, wanted))
        assert expect(gap, 1.0, weight).tie.mean() == pytest.approx(wanted, abs=1e-6)
    assert np.isfinite(find_tie_weight(gap, np.ones(50))), "a crowd that calls nothing else"
    assert find_tie_weight(np.empty(0), np.empty(0)) == 0.0


def test_agreement_by_hand() -> None:
    """Ability 1, odds of 3 to 1 on every pair: four decided votes, three with the board, one tie, one unscored."""
    pairs = [(1, 2, 0), (2, 1, 1), (1, 2, 0), (1, 2, 1), (1, 2, 2), (1, 3, 0)]
    found = find_agreement(votes_of(pairs, gaps={1: np.log(3.0), 2: 0.0}))
    assert (found.votes, found.accuracy) == (4, 0.75)
    own, typical = found.expected
    assert own.model_dump(exclude={"of"}) == typical.model_dump(exclude={"of"})
    assert own.accuracy == pytest.approx(0.75)
    assert own.accuracy_z == pytest.approx(0.0, abs=1e-12)
    loss = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    assert (own.log_loss, own.observed_log_loss) == pytest.approx((loss, loss))
    against = find_agreement(votes_of([(1, 2, 1)] * 12, gaps={1: np.log(3.0), 2: 0.0}, ability=-1.0))
    assert against.accuracy == 0.0
    own, typical = against.expected
    assert own.accuracy == pytest.approx(0.25)
    assert typical.accuracy_z == pytest.approx(-9 / np.sqrt(12 * 0.1875))
    assert typical.log_loss_z == pytest.approx(9 * np.log(3.0) / np.sqrt(12 * 0.1875 * np.log(3.0) ** 2))


def test_a_change_of_ability_is_told_with_its_time() -> None:
    """40 votes with the board, then 40 against it; sent newest first, as on record."""
    pairs = [(1, 2, 0)] * 40 + [(1, 2, 1)] * 40
    votes = votes_of(pairs[::-1], gaps={1: 1.5, 2: 0.0})
    found = measure_drift(votes)
    assert found is not None
    assert (found.votes, found.votes_before, found.changed_at) == (80, 40, None)
    assert found.log10_ratio > 6
    assert found.before - 2 * found.before_sd > 0.0 > found.after + 2 * found.after_sd
    (words,) = describe_drift(found)
    assert "After 40 decided votes of 80 the slope" in words
    # The times say that the votes came the other way round.
    seconds = np.arange(80.0) * 86_400
    turned = measure_drift(replace(votes, voted=seconds))
    assert turned is not None
    assert turned.before < turned.after
    assert turned.changed_at == datetime(1970, 2, 10, tzinfo=UTC)
    steady = measure_drift(votes_of([(1, 2, 0), (1, 2, 0), (1, 2, 1)] * 20, gaps={1: 1.0, 2: 0.0}))
    assert steady is not None
    assert steady.log10_ratio < 1
    assert not list(describe_drift(steady))
    assert measure_drift(votes_of([(1, 2, 0), (1, 2, 2), (1, 3, 0)], gaps={1: 1.0, 2: 0.0})) is None


def test_sides_by_hand() -> None:
    found = compare_sides(votes_of([(1, 2, 0), (2, 1, 0)] * 10, gaps={1: 0.5, 2: 0.0}))
    assert (found.votes, found.left) == (20, 1.0)
    assert found.expected_left == pytest.approx(0.5)
    p = 1 / (1 + np.exp(-0.5))
    assert found.p_value == pytest.approx(erfc(9.5 / sqrt(20 * p * (1 - p)) / sqrt(2)))
    fair = compare_sides(votes_of([(1, 2, 0), (2, 1, 1)] * 10, gaps={1: 0.5, 2: 0.0}))
    assert fair.p_value == pytest.approx(1.0)


def test_ties_and_models_by_hand() -> None:
    votes = votes_of([(1, 2, 2), (2, 1, 3), (1, 2, 0), (2, 3, 0)], gaps={1: 0.0, 2: 0.0, 3: 0.0}, tie_weight=2.0)
    found = compare_ties(votes)
    assert (found.votes, found.share, found.expected, found.z) == pytest.approx((4, 0.5, 0.5, 0.0))
    rows = {row.model: row for row in compare_models(votes, NAMES)}
    assert (rows["one"].votes, rows["one"].decided, rows["one"].wins) == (3, 1, 1)
    assert (rows["two"].votes, rows["two"].decided, rows["two"].wins) == (4, 2, 1)
    assert rows["three"].residual == pytest.approx(-1.0)
    assert rows["two"].expected_wins == pytest.approx(1.0)


def test_nothing_known_is_nothing_said() -> None:
    votes = votes_of([(1, 2, 0)], gaps={})
    assert find_agreement(votes).accuracy is None
    assert (compare_sides(votes).p_value, compare_ties(votes).share, compare_models(votes, NAMES)) == (None, None, [])


def test_honest_votes_are_as_expected() -> None:
    """Over a simulated crowd the figures are like standard normal ones: what they call unusual is unusual."""
    simulated = simulate_votes(11, n_models=10, roles={"honest": 60}, votes_each=150)
    world = simulated.world
    gaps = dict(enumerate((world.score / ELO_PER_NATURAL).tolist()))
    every = np.array([gaps[a] - gaps[b] for a, b in zip(simulated.model_a, simulated.model_b, strict=True)])
    tie_weight = find_tie_weight(every, np.full(len(every), (simulated.outcome == 0.5).mean()))
    found = []
    for k in range(60):
        mine = simulated.annotator == k
        outcome = np.array([{1.0: 0, 0.0: 1, 0.5: 2}[w] for w in simulated.outcome[mine].tolist()])
        pairs = list(
            zip(simulated.model_a[mine].tolist(), simulated.model_b[mine].tolist(), outcome.tolist(), strict=True)
        )
        votes = votes_of(pairs, gaps=gaps, ability=float(world.ability[k]), tie_weight=tie_weight)
        own = find_agreement(votes).expected[0]
        found.append((own.accuracy_z, own.log_loss_z))
    z = np.array(found)
    assert np.all(np.abs(z.mean(axis=0)) < 0.5)
    assert np.all((z.std(axis=0) > 0.7) & (z.std(axis=0) < 1.3))


def test_pace_by_hand() -> None:
    day = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    voted = day + np.array([0.0, 100.0, 102.0, 104.0, 7200.0, NEVER, NEVER, NEVER, NEVER])
    received = day + np.array([1.0, 1.0, 1.0, 1.0, 1.0, 9000.0, 9500.0, 9500.0, NEVER])
    found = measure_pace(voted, received)
    assert found.votes == 6, "two that arrived together and one without a date are left out"
    assert found.median_seconds == 100.0
    assert found.hasty == pytest.approx(2 / 5)
    assert found.busiest_hour is not None
    assert found.longest_burst is not None
    assert (found.busiest_hour.since, found.busiest_hour.votes) == (datetime(2026, 1, 1, tzinfo=UTC), 4)
    assert (found.longest_burst.votes, found.longest_burst.seconds) == (3, 4.0)
    assert measure_pace(np.full(9, NEVER), np.full(9, NEVER)).votes == 0
    lonely = measure_pace(np.array([day, *[NEVER] * 8]), np.full(9, NEVER))
    assert (lonely.votes, lonely.median_seconds, lonely.longest_burst) == (1, None, None)


def every(seconds: float, *, at_once: int = 1, votes: int = 100) -> tuple[Any, Any]:
    """Times of votes that came at this pace, so many under one timestamp."""
    return np.repeat(seconds * np.arange(votes // at_once), at_once), np.full(votes, NEVER)


def test_haste_is_held_against_the_crowd() -> None:
    slow, sitting = [every(60.0 + k) for k in range(12)], [every(300.0 + k, at_once=10) for k in range(12)]
    fast = measure_pace(*every(2.0), slow)
    assert (fast.hurried, fast.typical_hasty) == (True, 0.0)
    one_of_many = measure_pace(*every(300.0, at_once=10), sitting)
    assert (one_of_many.hurried, one_of_many.hasty) == (False, one_of_many.typical_hasty)
    assert one_of_many.hasty == pytest.approx(90 / 99)
    assert measure_pace(*every(300.0, at_once=10), slow).hurried, "a sitting a timestamp, where no other has them"
    assert not measure_pace(*every(60.0), slow).hurried


def test_haste_without_a_crowd() -> None:
    assert measure_pace(*every(2.0), [every(60.0)] * 9).hurried, "too few others to compare with"
    assert not measure_pace(*every(300.0, at_once=10)).hurried, "timestamps of sittings"
    assert measure_pace(*every(2.0), [every(60.0, votes=10)] * 50).typical_hasty is None, "too few votes of each"


def test_every_test_has_words() -> None:
    assert set(BEHAVIOURS) == set(EVIDENCE_TESTS)
    stored = {"rule": "favour", "tests": {"coin": 0.4, "favour": 3.2}, "about": {"favour": "gpt", "coin": None}}
    found = describe_findings(stored)
    assert [(one.test, one.about) for one in found.findings] == [("favour", "gpt"), ("coin", None)]
    assert found.findings[0].words == (
        "The odds are 16 to 1 that this is an annotator who always votes for gpt and otherwise honestly."
    )
    alike = describe_findings({"rule": "equal", "tests": {"equal": 3.2}})
    assert alike.findings[0].words == ("The odds are 16 to 1 that this is an annotator who always calls a tie.")
    assert [one.test for one in strong_findings(found)] == ["favour"]
    assert describe_findings(None).findings == []
    assert (format_ratio(0.4), format_ratio(9.1)) == ("2.5 times", "more than a million times")
    assert [format_odds(log) for log in (-214.0, -1.0, -0.6, 0.0, 0.4, 3.2, 5.9, 6.0, 214.0)] == [
        "less than one to a million",
        "1 to 10",
        "1 to 4",
        "1 to 1",
        "2.5 to 1",
        "1,585 to 1",
        "794,328 to 1",
        "more than a million to one",
        "more than a million to one",
    ]


def test_the_likeliest_explanation_is_the_diagnosis_and_the_others_stand_beside_it() -> None:
    """Who pushes one model may seem to bury another: against the diagnosis that is a small chance."""
    tests = {"favour": 78.0, "against": 12.0, "coin": -60.0, "equal": 1.2}
    stored = {
        "rule": "favour", "tests": tests, "about": {"favour": "birch", "against": "amber"},
        "explains": {"favour": 0.24, "against": 0.2, "equal": 0.031},
    }  # fmt: skip
    annotator = make_annotator(probability_low=0.01, ability=0.9)
    rule = RuleUsed(threshold=0.2, by_evidence=True, bar=100.0)
    assert describe_reasons(annotator, describe_findings(stored), rule) == [
        f"The odds are {odds} that this is an annotator who {behaviour}: that explains {share} % of the votes."
        for odds, behaviour, share in (
            ("more than a million to one", "always votes for birch and otherwise honestly", 24),
            ("less than one to a million", "always votes against amber and otherwise honestly", 20),
            ("1 to 6.3", "always calls a tie", 3),
        )
    ]


def test_an_ability_is_the_diagnosis_where_no_behaviour_is_likelier_than_not() -> None:
    low, rule = make_annotator(probability_low=0.97, ability=0.05), RuleUsed(0.2, by_evidence=True, bar=100.0)
    unlikely, likely = ({"rule": "ability", "tests": {"coin": ratio}} for ratio in (1.5, 4.0))
    first = [describe_reasons(low, describe_findings(one), rule)[0] for one in (unlikely, likely)]
    assert first[0].startswith("The ability is 0.05")
    assert first[1].startswith("The odds are 100 to 1 that this is an annotator who votes at random")


def test_scores_know_only_their_own_models() -> None:
    board = PublishedScores(
        np.array([2, 5]), np.array([1000.0, np.nan]), np.array([10.0, 30.0]), np.array([1.0, 9.0]), {}
    )
    gap = board.gap(np.array([2, 2, 2]), np.array([2, 5, 7]))
    assert np.isnan(gap).all(), "nor is there a gap between a model and itself"
    np.testing.assert_allclose(board.tie_share(np.array([2]), np.array([5])), 10 / 40)
    higher = PublishedScores(np.array([2, 5]), np.array([1100.0, 1000.0]), *np.ones((2, 2)), {})
    np.testing.assert_allclose(higher.gap(np.array([2]), np.array([5])), 100 / ELO_PER_NATURAL)
    assert np.isnan(PublishedScores(*np.empty((4, 0)), {}).gap(np.array([1]), np.array([2]))).all()
