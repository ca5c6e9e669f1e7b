"""Elo on two models of which one wins with a fixed probability: Elo Uncovered's Figures 1 to 4, and its appendix A."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.rating.arrays import Floats
from app.rating.plain.elo import play
from app.rating.units import NATURAL_PER_ELO
from stable_arena_lab.agreement import TIE
from stable_arena_lab.arenas import Arena
from stable_arena_lab.order import play_orders

INITIAL = 1_400.0
BATTLES = 1_000
WIN_RATES = (0.51, 0.55, 0.6, 0.65, 0.75)
K_FACTORS = (1.0, 8.0, 16.0, 32.0, 64.0)
PERMUTATIONS = (1, 10, 100, 1_000)
TRAJECTORY_K = 16.0
STEPS = 50  # battles between two points of a trajectory


@dataclass(frozen=True)
class Difference:
    """S_A − S_B after all battles, by K and by how many orders are averaged; Elo points.

    Attributes
    ----------
    win_rate : probability that A wins a battle that is not tied
    difference : of the averages over the first `permutations` orders
    sem : its standard error over these orders; None for one
    sd : standard deviation of one order's difference
    of_votes : the difference that explains the share w of battles that A won, a tie being half a win:
        400 log₁₀(w/(1 − w)), as m-ELO
    wrong : share of the averages over so many orders that put B first
    """

    win_rate: float
    k: float
    permutations: int
    difference: float
    sem: float | None
    sd: float
    of_votes: float
    wrong: float


@dataclass(frozen=True)
class Point:
    """A after so many battles, in one order and averaged over several; B is A's mirror image around 1400 and ½.

    Attributes
    ----------
    score, sem : Elo points, and the standard error over the orders; None for one
    won, won_sem : share of the battles that A has won, a tie being half a win
    """

    win_rate: float
    permutations: int
    battles: int
    score: float
    sem: float | None
    won: float
    won_sem: float | None


def simulate_pair(win_rate: float, battles: int, seed: int, *, ties: float = 0.0) -> Arena:
    """Simulate battles of A and B, of three outcomes: tied with probability `ties`, else A wins with `win_rate`."""
    generator = np.random.default_rng([seed, round(1e6 * win_rate)])
    outcome = (generator.random(battles) < win_rate).astype(np.float64)
    outcome = np.where(generator.random(battles) < ties, TIE, outcome)
    none, one = np.zeros(battles, dtype=np.int64), np.ones(battles, dtype=np.int64)
    return Arena(f"A wins {win_rate:g}", none, none, one, outcome, 1, 2)


def compare_settings(
    seed: int,
    *,
    battles: int = BATTLES,
    ties: float = 0.0,
    win_rates: Sequence[float] = WIN_RATES,
    k_factors: Sequence[float] = K_FACTORS,
    permutations: Sequence[int] = PERMUTATIONS,
) -> list[Difference]:
    """Play one data set of each win rate in random orders, the same orders for every K."""
    rows = []
    for win_rate in win_rates:
        arena = simulate_pair(win_rate, battles, seed, ties=ties)
        share = float(np.clip(arena.outcome.mean(), 0.5 / battles, 1.0 - 0.5 / battles))
        of_votes = math.log(share / (1.0 - share)) / NATURAL_PER_ELO
        for k in k_factors:
            ratings = play_orders(arena, k, max(permutations), seed, initial=INITIAL)
            gap = ratings[:, 0] - ratings[:, 1]
            rows += [_difference(win_rate, k, count, gap, of_votes) for count in permutations]
    return rows


def trace_scores(
    seed: int,
    *,
    battles: int = BATTLES,
    ties: float = 0.0,
    win_rates: Sequence[float] = WIN_RATES,
    permutations: Sequence[int] = PERMUTATIONS,
    k: float = TRAJECTORY_K,
) -> list[Point]:
    """Follow A's score and share of wins through the battles, in one order and averaged over many."""
    points = []
    for win_rate in win_rates:
        arena = simulate_pair(win_rate, battles, seed, ties=ties)
        generator = np.random.default_rng(seed)
        orders = np.stack([generator.permutation(battles) for _ in range(max(permutations))]).astype(np.int32)
        a, b = arena.model_a.astype(np.int32), arena.model_b.astype(np.int32)
        ratings = np.full((len(orders), 2), INITIAL)
        for first in range(0, battles, STEPS):
            play(a, b, arena.outcome, np.ascontiguousarray(orders[:, first : first + STEPS]), k, ratings)
            done = min(first + STEPS, battles)
            won = arena.outcome[orders[:, :done]].mean(axis=1)
            points += [
                Point(win_rate, count, done, *_mean(ratings[:count, 0]), *_mean(won[:count])) for count in permutations
            ]
    return points


def _difference(win_rate: float, k: float, count: int, gap: Floats, of_votes: float) -> Difference:
    difference, sem = _mean(gap[:count])
    groups = len(gap) // count
    averages = gap[: groups * count].reshape(groups, count).mean(axis=1)
    sd = float(gap.std(ddof=1)) if len(gap) > 1 else 0.0
    return Difference(win_rate, k, count, difference, sem, sd, of_votes, float(np.mean(averages < 0.0)))


def _mean(values: Floats) -> tuple[float, float | None]:
    """Return the mean and its standard error, None for one value."""
    sem = float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else None
    return float(values.mean()), sem
