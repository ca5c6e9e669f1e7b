"""The crowd's law of types and abilities, and how it is found from the annotators' posteriors."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.special import digamma, gammaln, polygamma

from app.rating.arrays import Floats
from app.rating.model.kernels import LawNumbers
from app.rating.settings import LEAST_SPREAD, MOST_SPREAD
from app.rating.sums import Sums

TYPES = ("honest", "coin", "contrary", "follower")
ASSUMED = np.array([20.0, 0.3, 0.15, 0.1])  # annotators of each type that count before any vote is seen
ASSUMED_SPREAD, SPREAD_VOTERS = 0.3, 4.0  # spread of honest abilities before, and how many annotators it counts as
CYCLES, SETTLED = 60, 1e-6  # steps of the search for the law, and the change of a logarithm that ends it
LONGEST, MOST_HALVINGS = 1.5, 12  # change of a logarithm in a step, and how often a step is halved
FLAT, LEAST_SHARE = 1e-6, 0.05  # of complete data's information: not positive below; the least that is taken instead
ROUNDING = 1e-12  # of a value, by which it may seem to fall


@dataclass(frozen=True)
class Law:
    """Shares of the types, in the order of `TYPES`, and the spread τ of honest abilities.

    They follow a gamma law with the mean 1 and the standard deviation τ, contrary ones the same with the other sign.
    `before` is the spread that is assumed before any vote is seen.
    """

    shares: Floats
    spread: float
    before: float = ASSUMED_SPREAD

    @classmethod
    def assumed(cls, spread: float = ASSUMED_SPREAD) -> "Law":
        """Return the law before any vote is seen."""
        return cls(ASSUMED / float(ASSUMED.sum()), spread, spread)

    @property
    def log_prior(self) -> float:
        """Log density of the weak prior of shares and spread, up to a constant."""
        of_spread = np.log(self.spread) + (self.before / self.spread) ** 2 / 2.0
        return float(ASSUMED @ np.log(self.shares) - SPREAD_VOTERS * of_spread)

    def moved(self, step: Floats, bounds: tuple[float, float] = (LEAST_SPREAD, MOST_SPREAD)) -> "Law":
        """Return the law with log-shares, but that of the honest, and log τ changed by so much, within the bounds."""
        logs = np.log(self.shares) + np.append(0.0, step[:3])
        shares = np.exp(logs - logs.max())
        inside = float(np.clip(self.spread * np.exp(step[3]), *bounds))
        return Law(shares / float(shares.sum()), self.spread if step[3] == 0.0 else inside, self.before)

    def numbers(self) -> LawNumbers:
        """Return the law as compiled loops read it."""
        shape = self.spread**-2
        base = shape * np.log(shape) - float(gammaln(shape))
        return LawNumbers(np.log(self.shares), shape, float(base), float(digamma(shape) - np.log(shape)) - 1.0)

    @property
    def information(self) -> float:
        """Variance of the derivative of an honest annotator's log density by log τ."""
        shape = self.spread**-2
        return float(4.0 * shape**2 * (polygamma(1, shape) - 1.0 / shape))


@dataclass(frozen=True)
class Posterior(Sums):
    """What the annotators' posteriors under a law add up to.

    Attributes
    ----------
    number : expected annotators of each part of the law, shape (4,)
    slope : expected Σ v of honest and contrary annotators, v the derivative of the log density by log τ
    missing : Σ_k Var_k of the parts' indicators and of v, shape (5, 5)
    value : Σ_k log ∫ L_k dG
    """

    number: Floats
    slope: float
    missing: Floats
    value: float


@dataclass(frozen=True)
class Found:
    """A law found at fixed scores.

    Attributes
    ----------
    posterior : under the law
    inverse : of its information in terms of log-shares but that of the honest, and log τ, shape (4, 4); rows of what
        cannot move are 0
    """

    law: Law
    posterior: Posterior
    inverse: Floats

    @property
    def value(self) -> float:
        """Log-likelihood and the prior of the law."""
        return self.posterior.value + self.law.log_prior


def find_law(
    law: Law, weigh: Callable[[Law], Posterior], *, settled: float = SETTLED, narrowest: float = 0.0
) -> Found:  # fmt: skip
    """Maximise Σ_k log ∫ L_k dG(law) plus the law's prior at fixed scores by Newton's method.

    Parameters
    ----------
    law : to begin from
    weigh : sums of the posteriors under a law
    settled : change of a logarithm that ends the search
    narrowest : least spread, relative to that of `law`: nodes that are set for one spread are too few for a small part
        of it

    References
    ----------
    Louis, JRSS B 1982: the information is that of complete data less what the posteriors leave open.

    Notes
    -----
    Where that is not positive, a first step is that of expectation-maximisation; the steps after it are longer.
    """
    bounds = max(narrowest * law.spread, LEAST_SPREAD), MOST_SPREAD
    at, least = _measure(law, weigh(law), 1.0, bounds), 1.0
    for _ in range(CYCLES):
        gradient = _gradient(at)
        if not at.inverse.any():
            break
        step = at.inverse @ gradient
        longest = float(np.abs(step).max())
        if longest < settled:
            break
        step *= min(1.0, LONGEST / longest)
        for _ in range(MOST_HALVINGS):
            new = at.law.moved(step, bounds)
            there = Found(new, weigh(new), at.inverse)
            if there.value >= at.value - ROUNDING * abs(at.value):
                break
            step /= 2.0
        else:
            weigh(at.law)
            break
        least = max(least / 2.0, LEAST_SHARE)
        at = _measure(new, there.posterior, least, bounds)
    return at


def hold_law(law: Law, weigh: Callable[[Law], Posterior]) -> Found:
    """Return a law that stays as it is, with the sums of the posteriors under it."""
    return Found(law, weigh(law), np.zeros((4, 4)))


def _gradient(at: Found) -> Floats:
    """Return the gradient by log-shares, but that of the honest, and by log τ."""
    found, law = at.posterior, at.law
    number = found.number + ASSUMED
    of_spread = found.slope + SPREAD_VOTERS * ((law.before / law.spread) ** 2 - 1.0)
    return np.append((number - law.shares * number.sum())[1:], of_spread)


def _measure(law: Law, found: Posterior, least: float, bounds: tuple[float, float]) -> Found:
    """Add the inverse of the information; where it is not positive, that of at least a share of complete data's."""
    number, shares, complete = found.number.sum() + ASSUMED.sum(), law.shares[1:], np.zeros((4, 4))
    complete[:3, :3] = number * (np.diag(shares) - np.outer(shares, shares))
    able = float(found.number[0] + found.number[2]) * law.information
    complete[3, 3] = max(able + 2.0 * found.slope, able / 2.0) + 2.0 * SPREAD_VOTERS * (law.before / law.spread) ** 2
    missing = found.missing[1:, 1:]
    gradient = _gradient(Found(law, found, complete))
    free = np.ones(4, dtype=bool)
    free[3] = not ((law.spread <= bounds[0] and gradient[3] < 0.0) or (law.spread >= bounds[1] and gradient[3] > 0.0))
    inverse, where = np.zeros((4, 4)), np.ix_(free, free)
    share, along = eigh((complete - missing)[where], complete[where])
    if share[0] <= FLAT:
        share = np.maximum(np.abs(share), least)
    inverse[where] = (along / share) @ along.T
    return Found(law, found, inverse)
