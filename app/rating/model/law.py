"""The crowd's law of types and abilities, and how it is found from the annotators' posteriors."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr

from app.rating.arrays import Floats
from app.rating.model.kernels import LawNumbers
from app.rating.sums import Sums

TYPES = ("honest", "coin", "contrary", "follower")
ASSUMED = np.array([20.0, 0.3, 0.15, 0.1])  # annotators of each type that count before any vote is seen
ASSUMED_SPREAD, SPREAD_VOTERS = 0.3, 4.0  # spread of honest abilities before, and how many annotators it counts as
LEAST_SPREAD, MOST_SPREAD = 0.05, 0.6  # a wider law would take coins for honest annotators
CYCLES, SETTLED = 60, 1e-6  # steps of the search for the law, and the change of a logarithm that ends it
LONGEST, MOST_HALVINGS = 1.5, 12  # change of a logarithm in a step, and how often a step is halved
ROUNDING = 1e-12  # of a value, by which it may seem to fall
DIFFERENCE = 1e-3  # of log τ, for derivatives


@dataclass(frozen=True)
class Law:
    """Shares of the types, in the order of `TYPES`, and the spread τ of honest abilities around their mean 1."""

    shares: Floats
    spread: float

    @classmethod
    def assumed(cls, spread: float | None = None) -> "Law":
        """Return the law before any vote is seen."""
        return cls(ASSUMED / float(ASSUMED.sum()), ASSUMED_SPREAD if spread is None else spread)

    @property
    def centre(self) -> float:
        """The c for which N(c, τ²) cut at 0 has the mean 1."""
        return _find_centre(self.spread)

    @property
    def log_above(self) -> float:
        """Log of the share of N(c, τ²) above 0."""
        return float(log_ndtr(self.centre / self.spread))

    @property
    def log_prior(self) -> float:
        """Log density of the weak prior of shares and spread, up to a constant."""
        of_spread = np.log(self.spread) + (ASSUMED_SPREAD / self.spread) ** 2 / 2.0
        return float(ASSUMED @ np.log(self.shares) - SPREAD_VOTERS * of_spread)

    def slopes(self) -> Floats:
        """Return the derivatives of c by λ = log τ, less …/τ, and of log_above, and their own derivatives: κ, μ, κ′, μ′."""
        less, here, more = (Law(self.shares, self.spread * float(np.exp(x))) for x in (-DIFFERENCE, 0.0, DIFFERENCE))
        centre, above = (np.array([getattr(x, name) for x in (less, here, more)]) for name in ("centre", "log_above"))
        slope = np.array([centre[2] - centre[0], above[2] - above[0]]) / (2.0 * DIFFERENCE)
        bend = np.array([centre[2] - 2.0 * centre[1] + centre[0], above[2] - 2.0 * above[1] + above[0]])
        bend /= DIFFERENCE**2
        kappa = slope[0] / self.spread
        return np.array([kappa, slope[1], bend[0] / self.spread - kappa, bend[1]])

    def numbers(self) -> LawNumbers:
        """Return the law as compiled loops read it."""
        kappa, mu, _, _ = self.slopes()
        return LawNumbers(np.log(self.shares), self.centre, self.spread, self.log_above, float(kappa), float(mu))


@dataclass(frozen=True)
class Posterior(Sums):
    """What the annotators' posteriors under a law add up to.

    Attributes
    ----------
    number : expected annotators of each type, shape (4,)
    moments : expected Σ z and Σ z² of honest and contrary annotators, z = (|θ| − c)/τ
    missing : Σ_k Var_k of the types' indicators and of z² + κ z, shape (5, 5)
    value : Σ_k log ∫ L_k dG
    """

    number: Floats
    moments: Floats
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


def find_law(law: Law, weigh: Callable[[Law], Posterior], *, fixed: bool = False) -> Found:
    """Maximise Σ_k log ∫ L_k dG(law) plus the law's prior at fixed scores by Newton's method.

    Parameters
    ----------
    law : to begin from
    weigh : sums of the posteriors under a law
    fixed : the spread stays

    References
    ----------
    Louis, JRSS B 1982: the information is that of complete data less what the posteriors leave open.
    """
    at = _measure(law, weigh(law), fixed=fixed)
    for _ in range(CYCLES):
        gradient = _gradient(at)
        if not at.inverse.any():
            break
        step = at.inverse @ gradient
        longest = float(np.abs(step).max())
        if longest < SETTLED:
            break
        step *= min(1.0, LONGEST / longest)
        for _ in range(MOST_HALVINGS):
            new = _move(at.law, step)
            there = Found(new, weigh(new), at.inverse)
            if there.value >= at.value - ROUNDING * abs(at.value):
                break
            step /= 2.0
        else:
            weigh(at.law)
            break
        at = _measure(new, there.posterior, fixed=fixed)
    return at


def _gradient(at: Found) -> Floats:
    """Return the gradient by log-shares, but that of the honest, and by log τ."""
    found, law = at.posterior, at.law
    kappa, mu, _, _ = law.slopes()
    number = found.number + ASSUMED
    able = found.number[0] + found.number[2]
    of_spread = found.moments[1] + kappa * found.moments[0] - (1.0 + mu) * able
    of_spread += SPREAD_VOTERS * ((ASSUMED_SPREAD / law.spread) ** 2 - 1.0)
    return np.append((number - law.shares * number.sum())[1:], of_spread)


def _measure(law: Law, found: Posterior, *, fixed: bool) -> Found:
    """Add the inverse of the information; where it is not positive, that of the information of complete data."""
    kappa, mu, kappa_slope, mu_slope = law.slopes()
    number, able = found.number.sum() + ASSUMED.sum(), found.number[0] + found.number[2]
    complete = np.zeros((4, 4))
    shares = law.shares[1:]
    complete[:3, :3] = number * (np.diag(shares) - np.outer(shares, shares))
    of_spread = 2.0 * found.moments[1] + (3.0 * kappa - kappa_slope) * found.moments[0] + (kappa**2 + mu_slope) * able
    complete[3, 3] = max(of_spread, 0.0) + 2.0 * SPREAD_VOTERS * (ASSUMED_SPREAD / law.spread) ** 2
    # z² + κ z − 1 − μ of the able ones is z² + κ z less (1 + μ) times the indicators of honest and contrary
    turn = np.eye(5)
    turn[4, [0, 2]] = -(1.0 + mu)
    missing = (turn @ found.missing @ turn.T)[1:, 1:]
    gradient = _gradient(Found(law, found, complete))
    free = np.ones(4, dtype=bool)
    free[3] = not (
        fixed or (law.spread <= LEAST_SPREAD and gradient[3] < 0.0) or (law.spread >= MOST_SPREAD and gradient[3] > 0.0)
    )
    inverse, where = np.zeros((4, 4)), np.ix_(free, free)
    information = (complete - missing)[where]
    if np.linalg.eigvalsh(information).min() <= 1e-3 * np.linalg.eigvalsh(complete[where]).min():
        information = complete[where]
    inverse[where] = np.linalg.inv(information)
    return Found(law, found, inverse)


def _move(law: Law, step: Floats) -> Law:
    logs = np.log(law.shares) + np.append(0.0, step[:3])
    shares = np.exp(logs - logs.max())
    spread = law.spread if step[3] == 0.0 else float(np.clip(law.spread * np.exp(step[3]), LEAST_SPREAD, MOST_SPREAD))
    return Law(shares / float(shares.sum()), spread)


def _find_centre(spread: float) -> float:
    centre = 1.0
    for _ in range(60):  # a contraction: it gains two digits a round at the widest spread
        z, before = centre / spread, centre
        centre = 1.0 - spread * math.exp(-0.5 * z * z) / (math.sqrt(2.0 * math.pi) * float(ndtr(z)))
        if abs(centre - before) < 1e-15:
            break
    return centre
