"""The effect of the order of votes: Elo Uncovered's reliability experiments."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from app.rating.arrays import Floats
from app.rating.plain.elo import play
from stable_arena_lab.agreement import consistency, ranking_agreement
from stable_arena_lab.arenas import Arena
from stable_arena_lab.methods import Method, rate
from stable_arena_lab.parallel import Progress, map_seeds

K_FACTORS = (1.0, 4.0, 8.0, 16.0, 24.0, 32.0, 36.0)
PERMUTATIONS = (1, 10, 100, 1_000, 10_000)
INITIAL = 1_400.0
COMPARED = 100
"""Rankings of each kind that are compared with each other, in all 4,950 pairs."""
REFITS = 5
ORDER_FREE: tuple[Method, ...] = ("m-elo", "am-elo plain", "am-elo robust")


@dataclass(frozen=True)
class EloSpread:
    """Elo with one K, averaged over N orders of the same votes: the spread of independent averages.

    Attributes
    ----------
    averages : number of averages, all permutations ÷ N
    sd : standard deviation of a model's score, mean over the models, Elo points; that of one permutation ÷ √N
    range : largest minus smallest score of a model, largest over the models; None for one average
    consistency : share of the pairs of models that two averages order alike; None for one average
    with_m_elo : the same between an average and m-ELO
    leaders : number of different models that are first
    """

    k: float
    permutations: int
    averages: int
    sd: float
    range: float | None
    consistency: float | None
    with_m_elo: float
    leaders: int


@dataclass(frozen=True)
class OrderFree:
    """A method that does not depend on the order, fitted to several orders of the votes.

    Attributes
    ----------
    range : largest difference of a model's score between two orders, Elo points; None without a result
    consistency : share of the pairs of models ordered alike
    """

    method: Method
    orders: int
    range: float | None
    consistency: float | None


def shuffle_and_rate(
    arena: Arena,
    *,
    seed: int = 0,
    k_factors: Sequence[float] = K_FACTORS,
    permutations: Sequence[int] = PERMUTATIONS,
    processes: int = 1,
    progress: Progress | None = None,
) -> tuple[list[EloSpread], list[OrderFree]]:
    """Play the votes in as many random orders as the largest of `permutations`, the same orders for every K.

    Parameters
    ----------
    permutations : numbers of orders over which Elo is averaged
    """
    m_elo = rate(arena, "m-elo")
    reference = np.full(arena.n_models, np.nan) if m_elo is None else m_elo.score
    work = partial(_elo_at, arena, tuple(k_factors), tuple(permutations), reference, seed)
    spreads = map_seeds(work, range(len(k_factors)), processes=processes, progress=progress)
    return [row for rows in spreads for row in rows], [_order_free(arena, method, seed) for method in ORDER_FREE]


def play_orders(arena: Arena, k: float, count: int, seed: int, *, initial: float = INITIAL) -> Floats:
    """Play the votes in `count` random orders and return the ratings after each, shape (count, n_models)."""
    generator = np.random.default_rng(seed)
    a, b = arena.model_a.astype(np.int32), arena.model_b.astype(np.int32)
    ratings = np.full((count, arena.n_models), initial)
    for row in range(count):
        order = generator.permutation(arena.n_votes).astype(np.int32)
        play(a, b, arena.outcome, order[None, :], k, ratings[row : row + 1])
    return ratings


def _elo_at(
    arena: Arena, k_factors: Sequence[float], permutations: Sequence[int], reference: Floats, seed: int, place: int
) -> list[EloSpread]:
    k, most = k_factors[place], max(permutations)
    ratings = play_orders(arena, k, most, seed)
    sd = float(ratings.std(axis=0, ddof=1).mean())
    return [_spread(ratings, k, size, sd, reference) for size in permutations]


def _spread(ratings: Floats, k: float, size: int, sd: float, reference: Floats) -> EloSpread:
    groups = len(ratings) // size
    averages = ratings[: groups * size].reshape(groups, size, -1).mean(axis=1)
    some = averages[:COMPARED]
    several = groups > 1
    return EloSpread(
        k=k,
        permutations=size,
        averages=groups,
        sd=sd / size**0.5,
        range=float(np.ptp(averages, axis=0).max()) if several else None,
        consistency=consistency(list(some)) if several else None,
        with_m_elo=float(np.mean([ranking_agreement(row, reference) for row in some])),
        leaders=len(np.unique(averages.argmax(axis=1))),
    )


def _order_free(arena: Arena, method: Method, seed: int) -> OrderFree:
    scores = []
    for number in range(REFITS):
        rated = rate(arena.take(np.random.default_rng([seed, number]).permutation(arena.n_votes)), method)
        if rated is None:
            return OrderFree(method, REFITS, None, None)
        scores.append(rated.score)
    return OrderFree(method, REFITS, float(np.nanmax(np.ptp(scores, axis=0))), consistency(scores))
