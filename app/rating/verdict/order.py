"""What the scores of a component say of its order. Servers load this: it loads neither scipy nor numba."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from app.rating.arrays import Floats, Indices, Mask
from app.rating.settings import SettingError, VerdictRule
from app.rating.uncertainty.freedom import contrast_freedom, critical_values, widen

Verdict = Literal["decided", "not-yet", "equal"]

TUNED_TO = 50.0
"""Elo points τ: the criterion is tightest for differences of this size. It must not depend on the votes."""
LEAST = 1e-12  # beside the mean information, in every direction: that on models far apart may vanish


@dataclass(frozen=True)
class JointScores:
    """Scores of models that compare, best first, with the joint errors of their differences; in Elo points.

    Attributes
    ----------
    models : indices as in the votes, shape (n,)
    score : less the centre of the component, shape (n,), descending
    errors : standard error of S_i − S_j, without that of the unit, which changes no order, shape (n, n)
    freedom : degrees of freedom of each score's variance, shape (n,)
    """

    models: Indices
    score: Floats
    errors: Floats
    freedom: Floats

    @cached_property
    def covariance(self) -> Floats:
        """Covariance of the scores less a mean of theirs, −½ (I − 1wᵀ) E (I − w1ᵀ), E the squared errors, shape (n, n).

        The weights w of the mean are 1 over the median of a model's squared errors to the others, so that a model with
        few votes moves neither the mean nor the variances of the others.
        """
        square = self.errors**2
        usual = np.sort(square, axis=1)[:, len(square) // 2] + LEAST * square.max() + np.finfo(float).tiny
        weight = usual.min() / usual
        weight /= weight.sum()
        mean = square @ weight
        centred: Floats = -0.5 * (square - mean[:, None] - mean + weight @ mean)
        return centred

    @cached_property
    def contrast_freedom(self) -> Floats:
        """Degrees of freedom of S_i − S_j, shape (n, n)."""
        every = np.arange(len(self.score))
        return contrast_freedom(np.diag(self.covariance), self.freedom, every[:, None], every)

    @property
    def gaps(self) -> Floats:
        """S_i − S_j, shape (n, n)."""
        return self.score[:, None] - self.score


@dataclass(frozen=True)
class LeadersVerdict:
    """Whether the best k models are known, and what each pair across the border says; pairs have shape (k, n − k).

    Attributes
    ----------
    k : 1 … n − 1
    verdict : "decided": each of the best k is certainly above each other model; "equal": where that is not certain,
        the two are certainly within the margin; "not-yet": neither
    gap : S_i − S_j in Elo points, i among the best k and j not
    half : half the width of the interval of the gap with which i is held against j, Elo points
    above, equal : the pairs that are certainly in order; those that are certainly within the margin
    unscored_may_lead : whether a model without a score may be better than one of the best k
    """

    k: int
    verdict: Verdict
    gap: Floats
    half: Floats
    above: Mask
    equal: Mask
    unscored_may_lead: bool

    @property
    def open(self) -> Mask:
        """The pairs whose order is not certain, shape (k, n − k)."""
        return ~self.above


@dataclass(frozen=True)
class Unscored:
    """The models of the component that the others cannot be compared with.

    Attributes
    ----------
    number : of the models that have no score, because they only won or only lost
    ceiling : Elo points, as the scores, that none of them ever exceeds, with probability `unscored_level`; ∞ where one
        of them has no such bound
    provisional : number of the models without a rank. The verdict does not speak of them. They count as models, so that
        the error rate holds when they get a rank.
    """

    number: int = 0
    ceiling: float = -math.inf
    provisional: int = 0

    @property
    def count(self) -> int:
        """How many models there are beside those that are compared."""
        return self.number + self.provisional


NONE = Unscored()


@dataclass(frozen=True)
class Confidence:
    """How sure the order of the ranked models of one component is.

    Attributes
    ----------
    joint : the scores, best first, and their joint errors
    doubled : standard errors of the differences after as many votes again, shape (n, n)
    within : P(model is among the best k), k = 1 … 50 or n, shape (n, most)
    forecasts : more votes until the best k are decided or practically equal, k = 1 … 50 or n − 1: the 10 %, 50 % and
        90 % points, shape (most, 3)
    votes : on these models, at least 1
    unscored : the other models of the component: those without a score, and provisional ones
    rule : what the forecasts ask for
    """

    joint: JointScores
    doubled: Floats
    within: Floats
    forecasts: Floats
    votes: float
    unscored: Unscored
    rule: VerdictRule

    def decide(self, k: int) -> LeadersVerdict:
        """Say whether the best k are decided.

        Raises
        ------
        ValueError
            k is not below the number of models with a score.
        """
        return decide(self.joint, k, self.rule, self.unscored)


def decide(joint: JointScores, k: int, rule: VerdictRule, unscored: Unscored = NONE) -> LeadersVerdict:
    """Say whether the best k models are decided, with an error rate that holds over all refits together.

    Parameters
    ----------
    k : 1 … n − 1
    unscored : the verdict is "not-yet" while one of these may be better than one of the best k

    Raises
    ------
    ValueError
        k is not within 1 … n − 1.

    Notes
    -----
    A set T is wrong if it has a model i that is not among the true best k, and then it lacks a model j that is, though
    S_j ≥ S_i. So only the k(n − k) pairs of a model that is truly among the best k and one that is not can make
    "decided" wrong, and only on one side. Each is tested at α/(k(n − k)) (Bonferroni). That two models are within the
    margin is tested at α/(n(n − 1)/2), because any two may be wrongly called equal. The intervals are those of
    `sequential_half_widths`. Models without a score and provisional ones count in n, these also among any two.
    """
    n = len(joint.score)
    if not 1 <= k < n:
        raise SettingError("k", f"must be from 1 to {n - 1}: {n} models have a score")
    errors, freedom = joint.errors[:k, k:], joint.contrast_freedom[:k, k:]
    gap = joint.score[:k, None] - joint.score[k:]
    half = sequential_half_widths(errors, freedom, order_cost(rule, k, n + unscored.count))
    above = (gap > half) & (errors > 0)
    wider = sequential_half_widths(errors, freedom, equality_cost(rule, n + unscored.provisional))
    equal = (gap + wider <= rule.margin) & (errors > 0) & ~above
    may_lead = unscored.number > 0 and _floor(joint, k, rule, n + unscored.count) <= unscored.ceiling
    verdict: Verdict = "not-yet"
    if (above | equal).all() and not may_lead:
        verdict = "decided" if above.all() else "equal"
    return LeadersVerdict(k, verdict, gap, half, above, equal, may_lead)


def _floor(joint: JointScores, k: int, rule: VerdictRule, n: int) -> float:
    """Return what the best k ever fall below with half the error probability of their pairs with unscored models."""
    errors = np.sqrt(np.diag(joint.covariance)[:k])
    alpha = (1.0 - rule.confidence) / (k * (n - k))
    half = sequential_half_widths(errors, joint.freedom[:k], one_sided_cost(alpha / 2.0))
    return float((joint.score[:k] - half).min())


def unscored_level(rule: VerdictRule, most: int, n: int) -> float:
    """Return with which probability a bound on an unscored model may ever be wrong, for verdicts on k = 1 … most.

    It is half of what a pair across the border has where there are most of them; the other half is for the score of the
    model that is among the best k.

    Parameters
    ----------
    n : models of the component, with and without a score
    """
    pairs = max(k * (n - k) for k in range(1, most + 1))
    return (1.0 - rule.confidence) / (2.0 * pairs)


def order_cost(rule: VerdictRule, k: int, n: int) -> float:
    """Return the cost of the statement that a model is above another, for each pair across the border of the best k."""
    return one_sided_cost((1.0 - rule.confidence) / (k * (n - k)))


def equality_cost(rule: VerdictRule, n: int) -> float:
    """Return the cost of the statement that two of n models are within the margin."""
    return two_sided_cost((1.0 - rule.confidence) / (n * (n - 1) / 2))


def two_sided_cost(alpha: float) -> float:
    """Return −2 ln α: what an interval costs that misses on either side with probability α."""
    return -2.0 * math.log(alpha)


def one_sided_cost(alpha: float) -> float:
    """Return −2 ln(2ακ), κ = Φ(√(−2 ln 2α)): what a bound costs that misses on its one side with probability α.

    Notes
    -----
    With differences of one sign alone in the mixture, |N(δ, τ²)|, the likelihood ratio is twice that of the normal
    mixture times Φ(z/√(1 + v/τ²)), z the difference in standard errors. Where it reaches 1/α the last factor is at
    least κ, nearly 1, so the cost is never too small.
    """
    cost = -2.0 * math.log(min(2.0 * alpha, 1.0))
    return -2.0 * math.log(2.0 * alpha * (1.0 - 0.5 * math.erfc(math.sqrt(cost / 2.0))))


def sequential_half_widths(errors: Floats, freedom: Floats, cost: float) -> Floats:
    """Return half the widths of intervals of differences that hold at every refit together: a confidence sequence.

    With v the variance of an estimated difference, they are √(v (1 + v/τ²) (ln(1 + τ²/v) + cost)): Robbins' normal
    mixture. With cost −2 ln α it is where the likelihood ratio of N(δ, τ²), a mixture of all differences, to δ reaches
    1/α. Under δ the ratio is a martingale with mean 1 as votes arrive, so it ever reaches 1/α with probability α
    (Ville's inequality).

    Parameters
    ----------
    errors : √v, Elo points, any shape
    freedom : degrees of freedom of v, same shape: v is estimated, so the multiple of √v becomes that of Student's t
        with the same tail
    cost : `two_sided_cost` of an interval, `one_sided_cost` of a bound

    Notes
    -----
    The scores are asymptotically normal around the truth with independent increments in 1/v, also where earlier votes
    chose the pairs. The guarantee is therefore asymptotic, as that of every interval of the leaderboard.
    docs/math/verdict.md has the error rates of simulated arenas.

    References
    ----------
    Robbins, Statistical methods related to the law of the iterated logarithm, Annals of Mathematical Statistics 1970;
    Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, Time-uniform central limit theory and asymptotic confidence
    sequences, Annals of Statistics 2024, Theorem 2.2, with t ρ² for τ²/v; one side: Howard, Ramdas, McAuliffe and
    Sekhon, Time-uniform, nonparametric, nonasymptotic confidence sequences, Annals of Statistics 2021, §3.
    """
    half: Floats = errors * widen(sequential_multiples(errors, cost), freedom)
    return half


def sequential_multiples(errors: Floats, cost: float) -> Floats:
    """Return the multiples of the standard errors that `sequential_half_widths` takes, v being known."""
    share = np.maximum((errors / TUNED_TO) ** 2, np.finfo(float).tiny)
    multiple: Floats = np.sqrt((1.0 + share) * (np.log1p(1.0 / share) + cost))
    return multiple


class OrderAgreement(NamedTuple):
    """Pairs of models with a score on both leaderboards.

    Attributes
    ----------
    pairs : how many there are
    same, opposite : those whose order is certain on both, and the same or not
    tau : Kendall's τ of the scores; None without a pair
    tau_lower, tau_upper : τ if the order of every other pair differed, or agreed
    """

    pairs: int
    same: int
    opposite: int
    tau: float | None
    tau_lower: float | None
    tau_upper: float | None


def compare_orders(a: Sequence[JointScores], b: Sequence[JointScores], confidence: float = 0.95) -> OrderAgreement:
    """Compare the orders of two leaderboards; an order is certain where the interval of the difference leaves out 0.

    Parameters
    ----------
    a, b : the scores of each of their groups of models, between which there is no order

    Notes
    -----
    τ of noisy scores is too close to 0, and more so the more models are close. The bounds on τ know of no order beyond
    the certain ones, so they are wide where votes are few. The two leaderboards may share annotators: the bounds do not
    ask for independent errors.
    """
    found = [(np.empty(0), np.empty(0, dtype=np.bool_))]
    for one, other in itertools.product(a, b):
        _, in_one, in_other = np.intersect1d(one.models, other.models, return_indices=True)
        (sign, sure), (sign_other, sure_other) = _orders(one, in_one, confidence), _orders(other, in_other, confidence)
        found.append((sign * sign_other, sure & sure_other))
    product, certain = map(np.concatenate, zip(*found, strict=True))
    pairs, same, opposite = len(product), int((certain & (product > 0)).sum()), int((certain & (product < 0)).sum())
    if not pairs:
        return OrderAgreement(0, 0, 0, None, None, None)
    return OrderAgreement(
        pairs, same, opposite, float(product.mean()), 2.0 * same / pairs - 1.0, 1.0 - 2.0 * opposite / pairs
    )


def _orders(joint: JointScores, models: Indices, confidence: float) -> tuple[Floats, np.ndarray]:
    first, second = (models[side] for side in np.triu_indices(len(models), 1))
    gap = joint.gaps[first, second]
    half = critical_values(joint.contrast_freedom[first, second], confidence) * joint.errors[first, second]
    return np.sign(gap), np.abs(gap) > half
