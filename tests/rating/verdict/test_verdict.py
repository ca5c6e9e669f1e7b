import math

import numpy as np
import pytest
from scipy.stats import norm, t

from app.rating.settings import VerdictRule
from app.rating.uncertainty.freedom import widen, widenings
from app.rating.verdict.order import (
    TUNED_TO,
    JointScores,
    LeadersVerdict,
    Unscored,
    decide,
    one_sided_cost,
    sequential_half_widths,
    sequential_multiples,
    two_sided_cost,
    unscored_level,
)
from tests.fixtures.joint_scores import joint_of


def naive_verdict(joint: JointScores, k: int, rule: VerdictRule) -> str:
    """The definition, pair by pair."""
    n, alpha = len(joint.score), 1 - rule.confidence
    decided = settled = True
    for i in range(k):
        for j in range(k, n):
            v, gap = joint.errors[i, j] ** 2, joint.score[i] - joint.score[j]

            def half(level: float, v: float = v) -> float:
                return float(np.sqrt(v * (1 + v / TUNED_TO**2) * (np.log(1 + TUNED_TO**2 / v) - 2 * np.log(level))))

            one_side = 2 * alpha / (k * (n - k))
            above = gap > half(one_side * norm.cdf(np.sqrt(-2 * np.log(one_side))))
            decided &= above
            settled &= above or abs(gap) + half(alpha / (n * (n - 1) / 2)) <= rule.margin
    return "decided" if decided else "equal" if settled else "not-yet"


def test_the_verdict_is_its_definition() -> None:
    generator = np.random.default_rng(0)
    rule, seen = VerdictRule(0.9, 40.0), set()
    for _ in range(200):
        n = int(generator.integers(2, 7))
        root = generator.standard_normal((n, n)) * generator.choice([1.0, 3.0, 10.0])
        joint = joint_of(sorted(generator.normal(0, 60, n), reverse=True), root @ root.T)
        k = int(generator.integers(1, n))
        found = decide(joint, k, rule)
        assert found.verdict == naive_verdict(joint, k, rule)
        assert found.gap.shape == found.half.shape == (k, n - k)
        seen.add(found.verdict)
    assert seen == {"decided", "equal", "not-yet"}


def test_shared_errors_do_not_count() -> None:
    """Two scores whose errors are nearly the same are told apart, however wide their own intervals are."""
    shared = np.full((2, 2), 90.0**2) + np.eye(2)
    assert decide(joint_of([1010.0, 1000.0], shared), 1, VerdictRule(margin=0.0)).verdict == "decided"
    apart = np.eye(2) * (90.0**2 + 1)
    assert decide(joint_of([1010.0, 1000.0], apart), 1, VerdictRule(margin=0.0)).verdict == "not-yet"


def test_models_without_a_score_leave_it_open() -> None:
    joint = joint_of([2000.0, 1000.0], np.eye(2))
    assert decide(joint, 1, VerdictRule()).verdict == "decided"
    for ceiling, verdict in ((math.inf, "not-yet"), (2000.0, "not-yet"), (1500.0, "decided"), (-math.inf, "decided")):
        found = decide(joint, 1, VerdictRule(), Unscored(1, ceiling))
        assert (found.verdict, found.unscored_may_lead) == (verdict, verdict == "not-yet")


def test_the_bound_of_a_model_that_only_lost_is_as_strict_as_all_its_pairs_need() -> None:
    rule = VerdictRule(confidence=0.9)
    assert unscored_level(rule, 1, 10) == pytest.approx(0.1 / (2 * 9))
    assert unscored_level(rule, 9, 10) == pytest.approx(0.1 / (2 * 25))
    widest = decide(joint_of([20.0, 0.0], np.eye(2) * 25.0), 1, rule, Unscored(1, -math.inf))
    assert widest.half > decide(joint_of([20.0, 0.0], np.eye(2) * 25.0), 1, rule).half


def test_pairs_without_an_error_are_never_certain() -> None:
    """An error of 0 says that too few annotators voted, not that the difference is known."""
    joint = joint_of([2000.0, 1000.0], np.ones((2, 2)))
    found = decide(joint, 1, VerdictRule(margin=1000.0))
    assert found.verdict == "not-yet"
    assert found.open.all()


@pytest.mark.parametrize("k", [0, 2, 3])
def test_k_is_below_the_number_of_models(k: int) -> None:
    with pytest.raises(ValueError, match="k must be from 1 to 1"):
        decide(joint_of([1.0, 0.0], np.eye(2)), k, VerdictRule())


def test_few_degrees_of_freedom_ask_for_more() -> None:
    covariance, score = np.eye(3) * 100.0, [1080.0, 1000.0, 1000.0]
    verdicts = [decide(joint_of(score, covariance, freedom), 1, VerdictRule()).verdict for freedom in (5.0, np.inf)]
    assert verdicts == ["not-yet", "decided"]
    multiple = np.array([1.96, 4.5])
    np.testing.assert_allclose(widen(multiple, np.array(7.0)), t.isf(norm.sf(multiple), 7), rtol=1e-9)
    freedom = np.array([1.0, 3.3, 47.0, 1e5, 1e12, np.inf])
    np.testing.assert_allclose(widenings(4.5, freedom), widen(np.full(6, 4.5), freedom) / 4.5, rtol=2e-3)


@pytest.mark.parametrize("sides", [1, 2])
def test_an_interval_holds_at_every_look_together(sides: int) -> None:
    """Votes come for ever, and each is looked at: intervals for one look are left by most paths, these by few."""
    generator, paths, looks = np.random.default_rng(1), 2000, 1000
    mean = generator.standard_normal((paths, looks)).cumsum(axis=1) / np.arange(1, looks + 1) * 200.0  # truth 0
    off = np.abs(mean) if sides == 2 else mean
    errors, one_look = 200.0 / np.sqrt(np.arange(1, looks + 1)), norm.isf(0.05 / sides)
    cost = two_sided_cost(0.05) if sides == 2 else one_sided_cost(0.05)
    missed = (off > sequential_half_widths(errors, np.full(looks, np.inf), cost)).any(axis=1).mean()
    for_one_look = (off > one_look * errors).any(axis=1).mean()
    assert 0.005 < missed <= 0.05
    assert for_one_look > 0.35


def test_one_side_costs_less_than_two_and_never_too_little() -> None:
    """At the bound the likelihood ratio of the mixture of positive differences is at least 1/α."""
    for alpha in (0.4, 0.05, 1e-4):
        cost = one_sided_cost(alpha)
        assert two_sided_cost(2 * alpha) < cost <= two_sided_cost(alpha)
        for v in (1.0, 2500.0, 1e6):
            z = float(sequential_multiples(np.array(np.sqrt(v)), cost))
            share = v / TUNED_TO**2
            mixture = 2 / np.sqrt(1 + 1 / share) * np.exp(z**2 / (2 * (1 + share))) * norm.cdf(z / np.sqrt(1 + share))
            assert 1 / alpha <= mixture * (1 + 1e-9)
            assert mixture < 1.6 / alpha
    assert one_sided_cost(0.7) == pytest.approx(two_sided_cost(0.7)), "nothing is known"


def test_a_decision_counts_its_open_pairs() -> None:
    found: LeadersVerdict = decide(joint_of([1100.0, 1090.0, 0.0], np.eye(3) * 16), 1, VerdictRule())
    assert found.open.tolist() == [[True, False]]
