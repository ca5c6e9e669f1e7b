"""The distribution of a habit over the crowd, from estimates with errors (empirical Bayes)."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from app.rating.arrays import Floats

OUTLIER_SD = 3.0  # natural units: of annotators who are not of the crowd, such as those who always vote for the left
MOST_OUTLIERS = 0.3
ROUNDS = 30
ENOUGH = 2_000  # estimates that determine a spread to 2 %
CONVERGED = 1e-4  # change of a standard deviation, in natural units, that ends the rounds
START = 0.05  # share of outliers to start from


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


def fit_spread(value: Floats, variance: Floats) -> Spread:
    """Fit value_k ~ N(mean, sd² + variance_k), with a share of outliers N(mean, 3² + variance_k), by likelihood.

    Parameters
    ----------
    value, variance : estimates and their variances, shape (n,); n may be 0; of more than 2,000 an even selection counts

    Notes
    -----
    Expectation-maximisation over the outliers; Fisher scoring of sd² in each round. O(30 n).
    """
    if len(value) == 0:
        return NO_SPREAD
    value, variance = value[:: 1 + len(value) // ENOUGH], variance[:: 1 + len(value) // ENOUGH]
    mean = float(np.median(value))
    spread, outliers = max(0.0, float(np.median((value - mean) ** 2 / 0.455 - variance))), START
    for _ in range(ROUNDS):
        inner, outer = (
            _log_density(value - mean, spread + variance),
            _log_density(value - mean, OUTLIER_SD**2 + variance),
        )
        of_crowd = expit(inner + np.log1p(-outliers) - outer - np.log(outliers))
        outliers = float(np.clip(1.0 - of_crowd.mean(), 1e-4, MOST_OUTLIERS))
        weight = of_crowd / (spread + variance)
        mean = float(weight @ value / weight.sum())
        scaled = of_crowd / (spread + variance) ** 2
        step = float(scaled @ ((value - mean) ** 2 - spread - variance) / scaled.sum())
        before, spread = spread, max(0.0, spread + step)
        if abs(np.sqrt(spread) - np.sqrt(before)) < CONVERGED:
            break
    log = np.logaddexp(
        _log_density(value - mean, spread + variance) + np.log1p(-outliers),
        _log_density(value - mean, OUTLIER_SD**2 + variance) + np.log(outliers),
    )
    return Spread(mean, float(np.sqrt(spread)), float((log - _log_density(value, variance)).sum()))


def _log_density(away: Floats, variance: Floats) -> Floats:
    log: Floats = -0.5 * (away**2 / variance + np.log(variance))
    return log
