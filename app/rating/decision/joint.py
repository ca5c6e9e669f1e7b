from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtr, stdtrit

from app.rating.data.arrays import Floats, Indices
from app.rating.inference.contrasts import contrast_errors
from app.rating.inference.covariance import NORMAL
from app.rating.inference.rating import Rating
from app.rating.solver.gauge import ELO_PER_NATURAL


@dataclass(frozen=True)
class JointScores:
    """Scores of models that compare, best first, with the joint errors of their differences; in Elo points.

    Attributes
    ----------
    models : indices as in the votes, shape (n,)
    score : shape (n,), descending
    errors : standard error of S_i − S_j, shape (n, n)
    freedom : degrees of freedom of each score's variance, shape (n,)
    """

    models: Indices
    score: Floats
    errors: Floats
    freedom: Floats

    @cached_property
    def covariance(self) -> Floats:
        """Covariance of the scores less their mean, −½ J E J with E the squared errors, shape (n, n)."""
        square = self.errors**2
        mean = square.mean(axis=0)
        centred: Floats = -0.5 * (square - mean[:, None] - mean + mean.mean())
        return centred

    @cached_property
    def contrast_freedom(self) -> Floats:
        """Degrees of freedom of S_i − S_j: the mean of 1/freedom, weighted by the variances, shape (n, n)."""
        variance = np.maximum(np.diag(self.covariance), np.finfo(float).tiny)
        share = variance / self.freedom
        inverse = (share[:, None] + share) / (variance[:, None] + variance)
        freedom: Floats = 1.0 / np.maximum(inverse, 1.0 / NORMAL)
        return freedom

    @property
    def gaps(self) -> Floats:
        """S_i − S_j, shape (n, n)."""
        return self.score[:, None] - self.score


def join_scores(rating: Rating) -> JointScores | None:
    """Return the scores of the largest component with their joint errors; None without errors or with one score.

    The largest component is the one with the most votes, number 0 on a leaderboard. Its models without a score or
    without a rank are left out.
    """
    if rating.covariance is None:
        return None
    models = rating.small.models
    here = np.flatnonzero((rating.components.label[models] == 0) & ~rating.models.provisional[models])
    if len(here) < 2:  # noqa: PLR2004  one score has no difference
        return None
    score = ELO_PER_NATURAL * (rating.unit * rating.fit.scores)[here]
    here, score = here[np.argsort(-score, kind="stable")], -np.sort(-score, kind="stable")
    errors = ELO_PER_NATURAL * contrast_errors(rating.covariance.scores, here[:, None], here)
    return JointScores(models[here], score, errors, rating.covariance.freedom[here])


def widen(multiple: Floats, freedom: Floats) -> Floats:
    """Return the multiple of t's standard error that is as improbable as this multiple of the normal's.

    Parameters
    ----------
    multiple : standard errors, at least 0; taken as at most 30
    freedom : degrees of freedom, in a shape that broadcasts; from 1e9 the normal distribution's
    """
    tail = ndtr(-np.minimum(multiple, 30.0))
    widened: Floats = np.where(freedom < NORMAL, -stdtrit(np.minimum(freedom, NORMAL), tail), multiple)
    return widened


def widenings(multiple: float, freedom: Floats) -> Floats:
    """Return `widen(multiple, freedom)` over the multiple, interpolated to .1 %: quick for many degrees of freedom."""
    grid = np.geomspace(1.0, NORMAL, 400)
    ratio = np.log(widen(np.full(grid.shape, multiple), grid) / multiple)
    wide: Floats = np.exp(np.interp(np.log(freedom), np.log(grid), ratio))
    return wide
