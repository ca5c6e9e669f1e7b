"""The published unit: ability 1 is the typical annotator."""

import math

import numpy as np

from app.rating.data.arrays import Floats, Indices
from app.rating.errors import NoCommonRankingError

ELO_PER_NATURAL = 400.0 / math.log(10.0)
LEAST_MEDIAN = 0.1
WIDEST = 0.5  # width of the smooth median of one ability; of n abilities n^(1/3) times less
CONVERGED = 1e-14  # of the equation, for each annotator
TINY = 1e-300
ROUNDS = 100  # Newton steps, each replaced by a halving of the range where it would leave it


def unit_widths(group: Indices) -> Floats:
    """Return the width n^(−1/3)/2 of the smooth median of each annotator's group of n, shape (n_annotators,).

    It vanishes slower than 1/n, so that the slope of the equation is known ever better, and faster than n^(−1/4), so
    that the smooth median comes so near to the median that the difference is small against the error of either.
    """
    members = np.bincount(group).astype(np.float64)
    widths: Floats = WIDEST * np.cbrt(1.0 / np.maximum(members, 1.0))
    return widths[group]


def typical_ability(theta: Floats, group: Indices | None = None) -> Floats:
    """Return the unit of published abilities: the m with Σ_k tanh((θ_k/m − 1)/h) = 0, a smooth median.

    Parameters
    ----------
    theta : annotators in the fit, shape (n_annotators,)
    group : scale group of each annotator (scales of different groups do not compare); default one group

    Returns
    -------
    float array, shape (n_annotators,): the unit of each annotator's group

    Raises
    ------
    NoCommonRankingError
        A median at or below 0.1: the annotators have no common ranking.
    """
    group = np.zeros(len(theta), dtype=np.int64) if group is None else group
    number, width = int(group.max(initial=-1)) + 1, unit_widths(group)
    unit = np.array([np.median(theta[group == each]) for each in range(number)])
    if number and unit.min() <= LEAST_MEDIAN:
        raise NoCommonRankingError(
            f"the median ability is {unit.min():.3f}, at or below {LEAST_MEDIAN}: the annotators have no common ranking"
        )
    members, low, high = np.bincount(group, minlength=number), np.zeros(number), np.full(number, np.inf)
    for _ in range(ROUNDS):
        ability = theta / unit[group]
        t = np.tanh((ability - 1.0) / width)
        value, slope = (np.bincount(group, each, minlength=number) for each in (t, (1.0 - t**2) * ability / width))
        if np.all(np.abs(value) <= CONVERGED * members):
            break
        low, high = np.where(value > 0, unit, low), np.where(value > 0, high, unit)
        newton = unit * (1.0 + value / np.maximum(slope, TINY))
        middle = np.where(np.isfinite(high), 0.5 * (low + high), 2.0 * unit)
        unit = np.where((low < newton) & (newton < high), newton, middle)
    return unit[group]
