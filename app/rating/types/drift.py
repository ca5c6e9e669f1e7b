"""Whether one annotator's ability changed at some vote."""

from dataclasses import dataclass

import numpy as np

from app.rating.arrays import Floats, log_sum_exp

ABILITIES: Floats = np.linspace(-2.0, 4.0, 61)
"""Abilities that are weighed; 1 is the typical annotator's. Beyond them votes hardly differ."""
LOG_PRIOR: Floats = -0.5 * (ABILITIES - 1.0) ** 2 - log_sum_exp(-0.5 * (ABILITIES - 1.0) ** 2)
"""Of an ability before and after a change, and of one that stays: normal around the typical one, sd 1."""
_COIN = int(np.argmin(np.abs(ABILITIES)))
_LOG_SHARES: Floats = np.log([0.5, 0.25, 0.25])


@dataclass(frozen=True)
class AbilityChange:
    """The evidence that an ability changed, and the likeliest change.

    Attributes
    ----------
    log_ratio : natural log of the likelihood ratio of "changed at some vote" against "one ability"
    votes_before : votes before the likeliest change, at least 1
    before, after : mean and standard deviation of the ability before and after it, given the votes
    """

    log_ratio: float
    votes_before: int
    before: tuple[float, float]
    after: tuple[float, float]


def find_drift(log_likelihood: Floats) -> AbilityChange | None:
    """Weigh "the ability changed once" against "one ability" over an annotator's votes in the order of time.

    ratio = mean over t of c(votes 1..t, votes t+1..n) / m(votes 1..n), with m(votes) = ∫ Π P(vote | a) N(a; 1, 1) da
    and c(x, y) = ½ m(x) m(y) + ¼ m(x) P(y | a = 0) + ¼ P(x | a = 0) m(y): after the change or before it the annotator
    may be a coin. Each term compares one change with none, so the mean needs no correction for many times.

    Parameters
    ----------
    log_likelihood : log P(vote | ability) at each of `ABILITIES`, the votes in the order of time, shape (n_votes, 61)

    Returns
    -------
    AbilityChange
        None for fewer than two votes.

    Notes
    -----
    The ratio is an e-value: for an annotator with a constant ability, drawn from the prior, it reaches L with a
    probability of at most 1/L at any given number of votes (Markov's inequality). Votes must be independent given the
    ability. The time is linear in the number of votes.

    References
    ----------
    Shafer, Shen, Vereshchagin and Vovk, Statistical Science 2011 (Bayes factors as e-values); Chernoff and Zacks,
    Annals of Mathematical Statistics 1964 (a change at an unknown time). Figures: docs/evidence.md.
    """
    if len(log_likelihood) < 2:  # noqa: PLR2004  a change has a vote before it and one after it
        return None
    upto = np.cumsum(log_likelihood, axis=0)
    whole, before = upto[-1], upto[:-1]
    after = whole - before
    of_before, of_after = (log_sum_exp(votes + LOG_PRIOR) for votes in (before, after))
    kinds = of_before + of_after, of_before + after[:, _COIN], before[:, _COIN] + of_after
    changed = log_sum_exp(np.stack(kinds, axis=1) + _LOG_SHARES)
    ratio = log_sum_exp(changed) - np.log(len(changed)) - log_sum_exp(whole + LOG_PRIOR)
    at = int(np.argmax(changed))
    return AbilityChange(float(ratio), at + 1, _moments(before[at]), _moments(after[at]))


def _moments(log_likelihood: Floats) -> tuple[float, float]:
    log_weight = log_likelihood + LOG_PRIOR
    weight = np.exp(log_weight - log_sum_exp(log_weight))
    mean = float(weight @ ABILITIES)
    return mean, float(np.sqrt(weight @ (ABILITIES - mean) ** 2))
