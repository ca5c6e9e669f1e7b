from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit

from app.rating.arrays import Floats, Indices
from app.rating.settings import Interval
from app.rating.uncertainty.ranks import contrast_errors

NORMAL = 1e9  # degrees of freedom from which t is the normal distribution
TINY = 1e-150  # its square is not 0


@dataclass(frozen=True)
class Covariance:
    """Sampling covariance of published scores and abilities.

    Attributes
    ----------
    scores : natural units of the mean annotator, each component centred, shape (n_models, n_models)
    order : the same without the annotators' pulls on the unit, which stretch all scores alike and change no order
    ability_se : standard error of the published ability, shape (n_annotators,); NaN where abilities are known
    kind : of the interval; "clustered" becomes "sandwich" with a single annotator
    clusters : annotators with a counted vote
    freedom : degrees of freedom of each model's variance, shape (n_models,); ∞ unless clustered
    judges : annotators who inform about each model, shape (n_models,); counted where clustered, else `clusters`
    profile : how far the profile intervals reach down and up, natural units; None for the other kinds
    """

    scores: Floats
    order: Floats
    ability_se: Floats
    kind: Interval
    clusters: int
    freedom: Floats
    judges: Indices
    profile: tuple[Floats, Floats] | None = None

    @property
    def variance(self) -> Floats:
        """Variance of each score, shape (n_models,)."""
        return np.maximum(np.diag(self.scores), 0.0)

    def contrast_half_widths(self, confidence: float, i: Indices, j: Indices, *, order: bool = False) -> Floats:
        """Return half the width of the interval of R_i − R_j, or of its test against 0; i and j broadcast."""
        errors = contrast_errors(self.order if order else self.scores, i, j)
        return critical_values(self.contrast_freedom(i, j, order=order), confidence) * errors

    def contrast_freedom(self, i: Indices, j: Indices, *, order: bool = False) -> Floats:
        """Return the degrees of freedom of R_i − R_j: the mean of 1/freedom, weighted by the variances."""
        variance = np.maximum(np.diag(self.order if order else self.scores), np.finfo(float).tiny)
        share = variance / self.freedom
        inverse = (share[i] + share[j]) / (variance[i] + variance[j])
        freedom: Floats = 1.0 / np.maximum(inverse, 1.0 / NORMAL)
        return freedom


def critical_values(freedom: Floats, confidence: float) -> Floats:
    """Return the two-sided quantiles of t; with infinite freedom, of the normal distribution."""
    tail = 0.5 + confidence / 2.0
    quantile: Floats = np.where(freedom < NORMAL, stdtrit(np.minimum(freedom, NORMAL), tail), ndtri(tail))
    return quantile
