import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.rating.arrays import AnyInts, Floats, Ints
from app.rating.compiled import compiled
from app.rating.errors import VotesError
from app.rating.threads import map_parts
from app.rating.units import NATURAL_PER_ELO
from app.rating.votes.columns import check_votes

BLOCK = 16  # orders that share a random stream and a thread


@dataclass(frozen=True)
class EloResult:
    """Elo ratings over shuffled orders, Elo points, arrays of shape (n_models,).

    Attributes
    ----------
    score : mean over the shuffles
    sem : standard error of that mean, sd / √shuffles
    sd : standard deviation over the shuffles (n − 1): the effect of one arbitrary order
    recorded : the rating in the recorded order
    """

    score: Floats
    sem: Floats
    sd: Floats
    recorded: Floats
    shuffles: int
    k: float
    initial: float
    seed: int


def fit_elo(
    model_a: AnyInts,
    model_b: AnyInts,
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
    model_a, model_b : integer arrays, shape (n_votes,), in the recorded order; indices in [0, n_models)
    outcome : W of model_a, shape (n_votes,): 1, 0.5 or 0
    k, initial : finite, Elo points
    shuffles : number of random orders, at least 2

    Raises
    ------
    VotesError
        No votes, arrays of different length, indices that are not integers or out of range, a model against itself, or
        an outcome other than 0, 0.5 and 1; as `aggregate`.
    ValueError
        Fewer than 2 shuffles, or k or initial not finite.

    Notes
    -----
    O(n_votes × shuffles), on every available thread. The result depends on the seed, not on the number of threads.

    References
    ----------
    Liu et al., Am-ELO, ICML 2025, Algorithm 1; Boubdir et al., Elo Uncovered, 2023 (averaging over permutations).
    """
    annotator = np.zeros(np.shape(model_a), dtype=np.int32)  # the kernel checks nothing
    _, model_a, model_b, W, _ = check_votes(
        annotator, model_a, model_b, outcome, None, n_annotators=1, n_models=n_models
    )
    if len(W) == 0:
        raise VotesError("no votes to rate", "no-votes")
    if shuffles < 2:  # noqa: PLR2004  a standard deviation needs two
        raise ValueError("at least 2 shuffles are needed for a standard deviation")
    if not (math.isfinite(k) and math.isfinite(initial)):
        raise ValueError("k and initial must be finite")
    a, b = model_a.astype(np.int32), model_b.astype(np.int32)
    recorded = np.full((1, n_models), initial)
    play(a, b, W, np.arange(len(a), dtype=np.int32)[None, :], k, recorded)
    ratings = np.full((shuffles, n_models), initial)
    streams = np.random.SeedSequence(seed).spawn(-(-shuffles // BLOCK))

    def play_block(index: int) -> None:
        rows = slice(index * BLOCK, min((index + 1) * BLOCK, shuffles))
        order = np.tile(np.arange(len(a), dtype=np.int32), (rows.stop - rows.start, 1))
        play(a, b, W, np.random.default_rng(streams[index]).permuted(order, axis=1), k, ratings[rows])

    map_parts(play_block, range(len(streams)))
    score, sd = ratings.mean(axis=0), ratings.std(axis=0, ddof=1)
    return EloResult(score, sd / np.sqrt(shuffles), sd, recorded[0], shuffles, k, initial, seed)


@compiled
def play(
    model_a: Ints,
    model_b: Ints,
    outcome: Floats,
    orders: Ints,
    k: float,
    ratings: Floats,
) -> None:
    """Update each row of `ratings`, shape (n_orders, n_models), by the votes in that row's order."""
    for row in range(len(orders)):
        rating = ratings[row]
        for vote in orders[row]:
            a, b = model_a[vote], model_b[vote]
            expected = 1.0 / (1.0 + math.exp((rating[b] - rating[a]) * NATURAL_PER_ELO))
            change = k * (outcome[vote] - expected)
            rating[a] += change
            rating[b] -= change
