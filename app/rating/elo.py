from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.rating.errors import VotesError
from app.rating.ranks import rank_by
from app.rating.sums import Floats

BLOCK_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class EloResult:
    """Elo ratings over shuffled orders, Elo points, arrays of shape (n_models,).

    Attributes
    ----------
    score : mean over the shuffles
    sem : standard error of that mean, sd / √shuffles
    sd : standard deviation over the shuffles (n − 1): what one arbitrary order would have added
    recorded : the rating in the order as recorded
    rank : by score
    """

    score: Floats
    sem: Floats
    sd: Floats
    recorded: Floats
    rank: NDArray[np.int64]
    shuffles: int
    k: float
    initial: float
    seed: int


def fit_elo(
    model_a: NDArray[np.integer],
    model_b: NDArray[np.integer],
    outcome: NDArray[np.floating],
    *,
    n_models: int,
    k: float = 4.0,
    initial: float = 1000.0,
    shuffles: int = 1000,
    seed: int = 0,
) -> EloResult:
    """Rate by R_i ← R_i + K (W − P), P = 1/(1 + 10^((R_j − R_i)/400)), over random orders of the votes.

    Parameters
    ----------
    model_a, model_b : integer arrays, shape (n_votes,), in the order as recorded
    outcome : W of model_a, shape (n_votes,): 1, 0.5 or 0
    shuffles : number of random orders, at least 2

    Raises
    ------
    VotesError
        No votes, or arrays of different length.

    Notes
    -----
    All shuffles advance together, one vote of each at a time: O(n_votes × shuffles).

    References
    ----------
    Liu et al., Am-ELO, ICML 2025, Algorithm 1; Boubdir et al., Elo Uncovered, 2023 (averaging over permutations).
    """
    if len({len(model_a), len(model_b), len(outcome)}) > 1:
        raise VotesError("the vote arrays differ in length")
    if len(model_a) == 0:
        raise VotesError("no votes to rate")
    if shuffles < 2:  # noqa: PLR2004  a standard deviation needs two
        raise ValueError("at least 2 shuffles are needed for a standard deviation")
    generator = np.random.default_rng(seed)
    votes = len(model_a)
    recorded = _play(model_a, model_b, outcome, np.arange(votes)[:, None], n_models, k, initial)[:, 0]
    block = max(1, min(shuffles, BLOCK_BYTES // (8 * votes)))
    ratings = []
    for first in range(0, shuffles, block):
        width = min(block, shuffles - first)
        order = generator.permuted(np.tile(np.arange(votes, dtype=np.int32)[:, None], (1, width)), axis=0)
        ratings.append(_play(model_a, model_b, outcome, order, n_models, k, initial))
    all_ratings = np.concatenate(ratings, axis=1)
    score = all_ratings.mean(axis=1)
    sd = all_ratings.std(axis=1, ddof=1)
    return EloResult(score, sd / np.sqrt(shuffles), sd, recorded, rank_by(score), shuffles, k, initial, seed)


def _play(
    model_a: NDArray[np.integer],
    model_b: NDArray[np.integer],
    outcome: NDArray[np.floating],
    order: NDArray[np.integer],
    n_models: int,
    k: float,
    initial: float,
) -> Floats:
    """Play the votes in each column's order; returns ratings, shape (n_models, n_orders)."""
    rating = np.full((n_models, order.shape[1]), initial)
    column = np.arange(order.shape[1])
    for votes in order:
        a, b = model_a[votes], model_b[votes]
        expected = 1.0 / (1.0 + 10.0 ** ((rating[b, column] - rating[a, column]) / 400.0))
        change = k * (outcome[votes] - expected)
        rating[a, column] += change
        rating[b, column] -= change
    return rating
