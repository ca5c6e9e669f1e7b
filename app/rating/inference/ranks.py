import numpy as np

from app.rating.data.arrays import Floats, Indices


def rank_spread(lower: Floats, upper: Floats) -> tuple[Indices, Indices]:
    """Return the best and worst rank that the intervals of models of one component allow.

    best_i = 1 + #{m : lower_m > upper_i}, worst_i = 1 + #{m ≠ i : upper_m > lower_i}.

    Parameters
    ----------
    lower, upper : shape (n,); infinite ends are allowed, NaN is not

    Returns
    -------
    best, worst : int arrays, shape (n,)

    References
    ----------
    Chiang et al., Chatbot Arena, 2024 (the leaderboard's "Rank (UB)"). O(n log n).
    """
    ascending_lower, ascending_upper = np.sort(lower), np.sort(upper)
    best = 1 + len(lower) - np.searchsorted(ascending_lower, upper, side="right")
    above = len(upper) - np.searchsorted(ascending_upper, lower, side="right")
    itself = upper > lower
    return best.astype(np.int64), (1 + above - itself).astype(np.int64)


def class_ranks(rank: Indices, lower: Floats, upper: Floats) -> Indices:
    """Return the class of each model of one component: models of a class cannot be told apart from its best model.

    Going down the ranking, the best model without a class opens the next one. It holds every model without a class
    whose upper bound reaches the opener's lower bound. So each model is in the class of the best opener that it
    reaches, and class 1 is the leader with all that cannot be told apart from it.

    Parameters
    ----------
    rank : shape (n,), 1 is best; of models that share a rank the one with the higher lower bound opens
    lower, upper : shape (n,); a model with an end that is not finite has no class

    Returns
    -------
    int array, shape (n,)
        1 for the best class, 0 for no class. O(n · number of classes).
    """
    classes = np.zeros(len(rank), dtype=np.int64)
    rest = np.flatnonzero(np.isfinite(lower) & np.isfinite(upper))
    rest = rest[np.lexsort((-lower[rest], rank[rest]))]
    number = 0
    while rest.size:
        number += 1
        joins = upper[rest] >= lower[rest[0]]
        classes[rest[joins]] = number
        rest = rest[~joins]
    return classes


def rank_by(key: Floats) -> Indices:
    """Rank 1 for the highest key; equal keys share the better rank, shape (n,)."""
    ascending = np.sort(key)
    return (1 + len(key) - np.searchsorted(ascending, key, side="right")).astype(np.int64)
