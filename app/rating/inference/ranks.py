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


def rank_by(key: Floats) -> Indices:
    """Rank 1 for the highest key; equal keys share the better rank, shape (n,)."""
    ascending = np.sort(key)
    return (1 + len(key) - np.searchsorted(ascending, key, side="right")).astype(np.int64)
