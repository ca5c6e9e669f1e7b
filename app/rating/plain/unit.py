"""The unit of abilities that are maximised with the scores: the mean."""

import numpy as np

from app.rating.arrays import Floats
from app.rating.errors import NoCommonRankingError
from app.rating.fitted import FitResult
from app.rating.plain.information import Groups

LEAST_MEAN = 0.1  # times the typical |θ|, at or below which an average ability sets no unit


def in_unit(fit: FitResult, groups: Groups) -> FitResult:
    """Return a fit in units of the mean ability of each group.

    Raises
    ------
    NoCommonRankingError
        A mean, or a median, is at or below a tenth of the median |θ|.
    """
    unit = groups.sum(fit.theta) / groups.sum(np.ones(len(fit.theta)))
    middle = [np.median(fit.theta[groups.annotators == group]) for group in range(groups.number)]
    average = np.minimum(unit, middle) / typical_sizes(fit.theta, groups)
    if (lowest := float(average.min())) <= LEAST_MEAN:
        raise NoCommonRankingError(
            f"the average ability is {lowest:.3f}, at or below {LEAST_MEAN}: the annotators have no common ranking"
        )
    R, theta = fit.R * unit[groups.models], fit.theta / unit[groups.annotators]
    return FitResult(R, theta, fit.log_likelihood, fit.iterations)


def typical_sizes(theta: Floats, groups: Groups) -> Floats:
    """Return the median |θ| of each group, shape (number,)."""
    return np.array([np.median(np.abs(theta[groups.annotators == group])) for group in range(groups.number)])
