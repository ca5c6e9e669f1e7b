"""Ranks from differences of scores: which models are certainly above which, one by one or all at once."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from app.rating.arrays import Floats, Indices, Mask
from app.rating.compiled import compiled
from app.rating.threads import one_blas_thread

LIKELY, SURE = 1, 2  # better by the interval of this one difference; in all pairs together
SEED = 42
DRAWS = 4_000
MOST_SIMULATED = 100  # models; of more, Bonferroni's inequality takes the place of the simulation
SHARE = 0.1  # of the error probability that goes to bounds on the differences themselves
FAR = 6.0  # standard errors below 0 at which a difference cannot come out above
STEP = 0.01  # of the multiples that Bonferroni's inequality is looked up at
DEEPEST = 40.0  # multiple at which a normal tail is 0


def rank_by(key: Floats) -> Indices:
    """Rank 1 for the highest key; equal keys share the better rank, shape (n,)."""
    ascending = np.sort(key)
    return (1 + len(key) - np.searchsorted(ascending, key, side="right")).astype(np.int64)


def rank_range(above: Mask) -> tuple[Indices, Indices]:
    """Return the best and worst rank that known orders allow.

    Parameters
    ----------
    above : whether the row's model is certainly above the column's, shape (n, n)

    Returns
    -------
    best, worst : 1 + the number of models certainly above, n − the number certainly below; int arrays, shape (n,)
    """
    best = 1 + np.count_nonzero(above, axis=0)
    worst = len(above) - np.count_nonzero(above, axis=1)
    return best.astype(np.int64), worst.astype(np.int64)


def sureness(of_pair: Mask, together: Mask) -> NDArray[np.int8]:
    """Return how sure it is that the row's model is better than the column's: `LIKELY`, `SURE`, or 0 for not at all.

    This is the one test of a difference: classes, headlines, pages and the API have their words from it.

    Parameters
    ----------
    of_pair : whether the 95 % interval of the difference is above 0, shape (n, n)
    together : whether it is still sure with 95 % confidence in all pairs together, of `order_together`; so in rank sets
    """
    sure: NDArray[np.int8] = np.where(together, SURE, np.where(of_pair, LIKELY, 0)).astype(np.int8)
    return sure


def class_ranks(rank: Indices, above: Mask) -> Indices:
    """Return the class of each model: models of a class cannot be told apart from its best model.

    Going down the ranking, the best model without a class opens the next one. It holds every model without a class
    that the opener is not certainly above. So class 1 is the leader with all that cannot be told apart from it.

    Parameters
    ----------
    rank : shape (n,), 1 is best; of models that share a rank the one that is above more of the others opens
    above : of `rank_range`

    Returns
    -------
    int array, shape (n,)
        1 for the best class. O(n · number of classes).
    """
    classes = np.zeros(len(rank), dtype=np.int64)
    rest, number = np.lexsort((-np.count_nonzero(above, axis=1), rank)), 0
    while rest.size:
        number += 1
        joins = ~above[rest[0], rest]
        classes[rest[joins]] = number
        rest = rest[~joins]
    return classes


def bonferroni_multiple(alpha: float, n: int) -> float:
    """Return the multiple that one of the n(n − 1) normal differences exceeds with a probability of at most α."""
    return float(-ndtri(alpha / max(n * (n - 1), 1)))


def order_together(z: Floats, errors: Floats, covariance: Floats, alpha: float) -> Mask:
    """Return which models are certainly above which, all together: one of them is wrong with probability α.

    Parameters
    ----------
    z : differences in standard errors, as if these were normal, 0 where they have no error, shape (n, n)
    errors : standard errors of the differences under the covariance, shape (n, n)
    covariance : of the scores, shape (n, n)

    Returns
    -------
    bool array, shape (n, n)
        Whether the row's model is above the column's.

    Notes
    -----
    The hypotheses S_i ≤ S_j of all ordered pairs are tested together, by their largest statistic, and again without
    those that are rejected until none is (step-down). A pair that is far apart cannot come out the wrong way. So with a
    tenth of α each difference is bounded from above first, and where that bound lies below 0 the statistic is taken to
    have it as its mean. The quantile of the largest is found by simulation up to 100 models, always with the same
    draws; of more models by Bonferroni's inequality, Σ P(statistic > c) = α, which holds for any dependence.

    References
    ----------
    Mogstad, Romano, Shaikh and Wilhelm, Inference for Ranks, Review of Economic Studies 2024, §3; Romano and Wolf,
    JASA 2005 (step-down); Romano, Shaikh and Wolf, Econometrica 2014 (bounds first).
    """
    n = len(z)
    known = errors > 0.0
    mean = np.minimum(z + bonferroni_multiple(SHARE * alpha, n), 0.0)
    left = (1.0 - SHARE) * alpha
    above = known & (z > bonferroni_multiple(left, n))
    draws = None
    while True:
        i, j = np.nonzero(known & ~above & (mean > -FAR))
        if not len(i):
            return above
        if n > MOST_SIMULATED:
            critical = _bound_quantile(mean[i, j], left)
        else:
            draws = _draw(covariance) if draws is None else draws
            critical = float(np.quantile(largest(draws, i, j, mean[i, j], 1.0 / errors[i, j]), 1.0 - left))
        more = known & (z > critical) & ~above
        if not more.any():
            return above
        above |= more


@one_blas_thread()
def _draw(covariance: Floats) -> Floats:
    """Draw errors of the scores, shape (DRAWS, n)."""
    values, vectors = np.linalg.eigh(covariance)
    half = np.random.default_rng(SEED).standard_normal((DRAWS // 2, len(values)))
    errors = half @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    return np.concatenate([errors, -errors])


def _bound_quantile(mean: Floats, alpha: float) -> float:
    """Return the smallest c with Σ P(N(mean, 1) > c) ≤ α, each mean taken as the next higher multiple of `STEP`."""
    at, count = np.unique(np.ceil(mean / STEP) * STEP, return_counts=True)
    low, high = 0.0, DEEPEST
    while high - low > STEP / 10.0:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if count @ ndtr(at - middle) > alpha else (low, middle)
    return high


@compiled
def largest(draws: Floats, i: Indices, j: Indices, mean: Floats, inverse: Floats) -> Floats:
    """Return the largest of mean + (e_i − e_j)/error over some pairs, for each drawn e, shape (draws,)."""
    found = np.empty(len(draws))
    for row in range(len(draws)):
        e, most = draws[row], -np.inf
        for pair in range(len(i)):
            most = max(most, mean[pair] + (e[i[pair]] - e[j[pair]]) * inverse[pair])
        found[row] = most
    return found
