"""How many more votes each pair of models takes. Servers load this: it loads neither scipy nor numba."""

import math

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.uncertainty.freedom import widenings
from app.rating.verdict.order import sequential_multiples

SEED = 14
QUANTILES = (0.1, 0.5, 0.9)
PATHS = 200
FEWEST, MOST = 0.02, 50.0
"""Multiples of the votes so far between which forecasts lie. Fewer count as the fewest, more as infinite."""
STEPS = 33
DEEP = 4.5  # standard errors of a usual verdict, at which the degrees of freedom widen the errors


def more_votes(votes: float) -> Floats:
    """Return the numbers of more votes that a forecast looks at, shape (STEPS,)."""
    return np.geomspace(FEWEST * votes, MOST * votes, STEPS)


def forecast_pairs(
    gap: Floats, errors: Floats, doubled: Floats, freedom: Floats, *,
    votes: float, costs: tuple[float, float], margin: float, paths: int = PATHS,
) -> Floats:  # fmt: skip
    """Forecast how many more votes settle each pair by itself.

    Parameters
    ----------
    gap, errors, freedom : S_i − S_j, its standard error and degrees of freedom, shape (pairs,)
    doubled : the standard error after as many votes again
    votes : so far
    costs : of the two statements, order and equality (`app.rating.verdict.order`)
    margin : Elo points

    Returns
    -------
    As of `forecast_verdicts`, until each pair is certainly in order or certainly within the margin, shape (pairs, 3).

    Notes
    -----
    As `forecast_verdicts`, with the information on the pair growing in proportion: 1/v(m) = (1 + g m/votes)/v, g such
    that v(votes) is as given.
    """
    growth = np.maximum((errors / np.maximum(doubled, np.finfo(float).tiny)) ** 2 - 1.0, 0.0)
    ahead = more_votes(votes)
    generator, at, known = np.random.default_rng(SEED), np.zeros((paths, len(gap))), np.zeros(len(gap))
    first = np.full((len(gap), paths), STEPS, dtype=np.int64)
    for step, more in enumerate(ahead):
        left = 1.0 / (1.0 + growth * more / votes)
        increment = np.sqrt(np.maximum(1.0 - left - known, 0.0)) * generator.standard_normal((paths, 1))
        at, known = at + increment, 1.0 - left
        size = np.abs(gap + errors * at)
        error = errors * np.sqrt(left) * widenings(DEEP, freedom * (1.0 + more / votes))
        half = error * sequential_multiples(error, costs[0])
        equal = size + error * sequential_multiples(error, costs[1]) <= margin
        settled = ((size > half) | equal) & (error > 0)
        first = np.minimum(first, np.where(settled, step, STEPS).T)
    return find_quantiles(first, ahead)


def find_quantiles(first: Indices, ahead: Floats) -> Floats:
    """Return the quantiles of the numbers of votes at these steps, by row; ∞ for the step after the last."""
    votes = np.append(ahead, math.inf)
    ordered = np.sort(first, axis=1)
    places = [min(int(quantile * first.shape[1]), first.shape[1] - 1) for quantile in QUANTILES]
    found: Floats = votes[ordered[:, places]]
    return found
