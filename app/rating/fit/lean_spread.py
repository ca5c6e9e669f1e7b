"""The distribution of a lean over the crowd, from each annotator's own, by their votes alone."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from app.rating.arrays import Floats, Indices

KNOWN = 1e-3  # information below which the votes say nothing
OUTLIER_SD = 3.0  # natural units: of annotators who are not of the crowd, such as those who always vote for the left
LEAST_OUTLIERS, MOST_OUTLIERS = 1e-4, 0.3  # share of the crowd
ROUNDS = 30
ENOUGH = 2_000  # estimates that determine a spread to 2 %
CONVERGED = 1e-4  # change of a standard deviation, in natural units, that ends the rounds
START = 0.05  # share of outliers to start from


def of_votes_alone(value: Floats, variance: Floats, centre: float, precision: Floats) -> tuple[Indices, Floats, Floats]:
    """Take the prior off estimates under it, shape (n_annotators,).

    Returns
    -------
    The annotators whose votes say something, the estimates, and their variances.
    """
    own = 1.0 / variance - precision
    some = np.flatnonzero(own > KNOWN)
    alone = (value[some] / variance[some] - precision[some] * centre) / own[some]
    return some, alone, 1.0 / own[some]


@dataclass(frozen=True)
class Spread:
    """A normal distribution over the crowd.

    Attributes
    ----------
    gain : log-likelihood above that of a crowd with mean 0 and no spread
    """

    mean: float
    sd: float
    gain: float

    def log_evidence(self, value: Floats, variance: Floats) -> Floats:
        """Return log ∫ L dN / L(value), L normal around the value, N the crowd.

        Parameters
        ----------
        value, variance : estimates by the votes alone, and their variances, shape (n,)
        """
        log: Floats = _log_density(value - self.mean, self.sd**2 + variance) + 0.5 * np.log(variance)
        return log


NO_SPREAD = Spread(0.0, 0.0, 0.0)


def fit_spread(value: Floats, variance: Floats, *, most_outliers: float = MOST_OUTLIERS) -> Spread:
    """Fit value_k ~ N(mean, sd² + variance_k), with a share of outliers N(mean, 3² + variance_k), by likelihood.

    Parameters
    ----------
    value, variance : estimates and their variances, shape (n,); n may be 0; of more than 2,000 an even selection counts
    most_outliers : largest share of outliers; 0 for a prior that all annotators have, outliers too

    Notes
    -----
    Expectation-maximisation over the outliers; Fisher scoring of sd² in each round. O(30 n).
    """
    if len(value) == 0:
        return NO_SPREAD
    value, variance = value[:: 1 + len(value) // ENOUGH], variance[:: 1 + len(value) // ENOUGH]
    mean = float(np.median(value))
    spread, outliers = max(0.0, float(np.median((value - mean) ** 2 / 0.455 - variance))), min(START, most_outliers)
    for _ in range(ROUNDS):
        inner, outer = (
            _log_density(value - mean, spread + variance),
            _log_density(value - mean, OUTLIER_SD**2 + variance),
        )
        of_crowd = expit(inner + np.log1p(-outliers) - outer - _log(outliers))
        outliers = min(max(1.0 - float(of_crowd.mean()), LEAST_OUTLIERS), most_outliers)
        weight = of_crowd / (spread + variance)
        mean = float(weight @ value / weight.sum())
        scaled = of_crowd / (spread + variance) ** 2
        step = float(scaled @ ((value - mean) ** 2 - spread - variance) / scaled.sum())
        before, spread = spread, max(0.0, spread + step)
        if abs(np.sqrt(spread) - np.sqrt(before)) < CONVERGED:
            break
    log = np.logaddexp(
        _log_density(value - mean, spread + variance) + np.log1p(-outliers),
        _log_density(value - mean, OUTLIER_SD**2 + variance) + _log(outliers),
    )
    return Spread(mean, float(np.sqrt(spread)), float((log - _log_density(value, variance)).sum()))


def _log(share: float) -> float:
    return math.log(share) if share else -math.inf


def _log_density(away: Floats, variance: Floats) -> Floats:
    log: Floats = -0.5 * (away**2 / variance + np.log(variance))
    return log
