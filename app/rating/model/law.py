"""The crowd's law of types and abilities, and how it is found from the annotators' posteriors."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr

from app.rating.arrays import Floats
from app.rating.settings import LEAST_SPREAD, MOST_SPREAD
from app.rating.sums import Sums

TYPES = ("honest", "coin", "contrary", "follower")
ASSUMED = np.array([20.0, 0.3, 0.15, 0.1])  # annotators of each type that count before any vote is seen
ASSUMED_SPREAD, SPREAD_VOTERS = 0.3, 4.0  # spread of honest abilities before, and how many annotators it counts as
CYCLES, SETTLED = 40, 1e-7  # steps of the search for the law, and the change of a logarithm that ends it
TINY = 1e-300
LONGEST = 64.0  # factor by which a step is extrapolated at most


@dataclass(frozen=True)
class Law:
    """Shares of the types, in the order of `TYPES`, and the spread τ of honest abilities around their mean 1.

    `before`: the spread that is assumed before any vote is seen.
    """

    shares: Floats
    spread: float
    before: float = ASSUMED_SPREAD

    @classmethod
    def assumed(cls, spread: float = ASSUMED_SPREAD) -> "Law":
        """Return the law before any vote is seen."""
        return cls(ASSUMED / float(ASSUMED.sum()), float(np.clip(spread, LEAST_SPREAD, MOST_SPREAD)), spread)

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
        of_spread = np.log(self.spread) + (self.before / self.spread) ** 2 / 2.0
        return float(ASSUMED @ np.log(self.shares) - SPREAD_VOTERS * of_spread)


@dataclass(frozen=True)
class Posterior(Sums):
    """What the annotators' posteriors under a law add up to.

    Attributes
    ----------
    number : expected annotators of each type, shape (4,)
    square : expected Σ (|θ| − c)² of honest and contrary annotators
    value : Σ_k log ∫ L_k dG
    """

    number: Floats
    square: float
    value: float


def find_law(law: Law, weigh: Callable[[Law], Posterior]) -> Law:
    """Maximise Σ_k log ∫ L_k dG(law) plus the law's prior at fixed scores, by accelerated expectation-maximisation.

    Parameters
    ----------
    law : to begin from
    weigh : sums of the posteriors under a law

    Notes
    -----
    The step of the spread leaves out how the cut at 0 moves with it, which is less than what the votes say of it.

    References
    ----------
    Varadhan and Roland, Scandinavian Journal of Statistics 2008 (SQUAREM).
    """

    def update(law: Law) -> tuple[Law, float]:
        found = weigh(law)
        return _maximise(found, law.before), found.value + law.log_prior

    for _ in range(CYCLES):
        once, before = update(law)
        twice, _ = update(once)
        x0, x1, x2 = _pack(law), _pack(once), _pack(twice)
        if np.abs(x2 - x1).max() < SETTLED:
            return twice
        step, bend = x1 - x0, x2 - 2.0 * x1 + x0
        ratio = float(step @ step) / max(float(bend @ bend), TINY)
        length = max(1.0, min(math.sqrt(ratio), LONGEST))
        further, value = update(_unpack(x0 + 2.0 * length * step + length**2 * bend, law.before))
        law = further if value >= before else twice
    return law


def _maximise(found: Posterior, before: float) -> Law:
    number = found.number + ASSUMED
    able = SPREAD_VOTERS + found.number[0] + found.number[2]
    spread = np.sqrt((SPREAD_VOTERS * before**2 + found.square) / able)
    return Law(number / float(number.sum()), float(np.clip(spread, LEAST_SPREAD, MOST_SPREAD)), before)


def _pack(law: Law) -> Floats:
    logs: Floats = np.log(np.append(law.shares, law.spread))
    return logs


def _unpack(logs: Floats, before: float) -> Law:
    shares = np.exp(np.clip(logs[:-1], -30.0, 0.0))
    return Law(shares / float(shares.sum()), float(np.clip(np.exp(logs[-1]), LEAST_SPREAD, MOST_SPREAD)), before)


def _find_centre(spread: float) -> float:
    centre = 1.0
    for _ in range(30):  # a contraction: it gains two digits a round at the widest spread
        z = centre / spread
        centre = 1.0 - spread * float(np.exp(-0.5 * z * z) / (np.sqrt(2.0 * np.pi) * ndtr(z)))
    return centre
