"""Tests whether ratings find A > B > C: Elo Uncovered's four scenarios (its Table 1, and Figures 5 and 7)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import numpy as np

from app.rating.arrays import Floats
from stable_arena_lab.arenas import Arena
from stable_arena_lab.methods import Method, rate
from stable_arena_lab.order import play_orders
from stable_arena_lab.parallel import Progress, map_seeds
from stable_arena_lab.spread import mean_or_none

Scenario = Literal["A≫B, B≫C", "A≫B, B≈C", "A≈B, B≫C", "A≈B, B≈C"]
SCENARIOS: tuple[Scenario, ...] = get_args(Scenario)
WIN_RATES: Mapping[Scenario, tuple[float, float]] = {
    "A≫B, B≫C": (0.75, 0.75),
    "A≫B, B≈C": (0.75, 0.51),
    "A≈B, B≫C": (0.51, 0.75),
    "A≈B, B≈C": (0.54, 0.51),
}
"""The probability that A wins against B, and B against C, as in the paper (§5.3.1)."""
VOTES_EACH_PAIR = 1_000
ANNOTATORS = 20
INITIAL = 1_400.0
"""The start of Elo in the paper, and the mean of every rating's scores here."""
ELO_SETTINGS = ((1.0, 1), (1.0, 100), (16.0, 1), (16.0, 100))
"""(K, permutations averaged), the columns of their table."""
SHOWN_K, SHOWN_N = (1.0, 4.0, 8.0, 16.0, 32.0, 64.0), (1, 10, 100)
"""Of the figure of the scores, the settings of the table among them."""
MODELS = "ABC"
JOINT: tuple[Method, ...] = ("m-elo", "am-elo plain", "am-elo robust")
RATINGS = (*(f"elo K={k:g} N={n}" for k, n in ELO_SETTINGS), *JOINT)
_A, _B, _C = range(3)


@dataclass(frozen=True)
class Order:
    """A rating's result on a scenario, over the repeats.

    Attributes
    ----------
    rating : "elo K=16 N=100" is Elo at K 16 averaged over 100 orders
    a, b, c : mean score, Elo points, each repeat's mean at 1400
    true_order : share of the repeats in which A > B > C
    order_of_votes : share of the repeats in which neighbours are in the order of the majority of their battles
    a_above_c : share of the repeats in which A > C
    answered : repeats in which the rating has a result
    """

    scenario: Scenario
    rating: str
    a: float | None
    b: float | None
    c: float | None
    true_order: float | None
    order_of_votes: float | None
    a_above_c: float | None
    answered: int


@dataclass(frozen=True)
class Cell:
    """A model's Elo score in one data set, mean over the permutations: as in the paper's Table 1 and Figures 5 and 7.

    Attributes
    ----------
    sem : standard error of the mean; None for one permutation
    """

    scenario: Scenario
    model: str
    k: float
    permutations: int
    score: float
    sem: float | None


def tabulate_scores(seed: int, *, closed: bool = False) -> list[Cell]:
    """Rate one data set of every scenario by Elo, for every K and number of orders that the figure shows."""
    cells = []
    for scenario in SCENARIOS:
        arena = simulate_scenario(scenario, seed, closed=closed)
        for k in SHOWN_K:
            ratings = play_orders(arena, k, max(SHOWN_N), seed, initial=INITIAL)
            for count in SHOWN_N:
                some = ratings[:count]
                sem = some.std(axis=0, ddof=1) / math.sqrt(count) if count > 1 else None
                cells += [
                    Cell(scenario, model, k, count, float(some[:, i].mean()), None if sem is None else float(sem[i]))
                    for i, model in enumerate(MODELS)
                ]
    return cells


def simulate_scenario(scenario: Scenario, seed: int, *, closed: bool = False) -> Arena:
    """Simulate 1,000 battles A–B and then 1,000 B–C without ties, by 20 equal annotators.

    Parameters
    ----------
    closed : add 1,000 battles A–C, at the win rate that the other two imply under Bradley-Terry
    """
    generator = np.random.default_rng([seed, SCENARIOS.index(scenario)])
    first, second = WIN_RATES[scenario]
    gap = math.log(first / (1 - first)) + math.log(second / (1 - second))
    pairs = [(_A, _B, first), (_B, _C, second)]
    if closed:
        pairs.append((_A, _C, 1.0 / (1.0 + math.exp(-gap))))
    size = VOTES_EACH_PAIR
    outcome = np.concatenate([(generator.random(size) < p).astype(np.float64) for *_, p in pairs])
    return Arena(
        name=scenario,
        annotator=np.arange(size * len(pairs)) % ANNOTATORS,
        model_a=np.repeat([a for a, *_ in pairs], size),
        model_b=np.repeat([b for _, b, _ in pairs], size),
        outcome=outcome,
        n_annotators=ANNOTATORS,
        n_models=3,
    )


def rate_scenarios(
    seeds: Sequence[int],
    *,
    closed: bool = False,
    processes: int = 1,
    progress: Progress | None = None,
) -> list[Order]:
    """Rate every scenario once for every seed, by Elo at two K and with and without averaging, m-ELO and am-ELO."""
    work = partial(_rate_all, closed)
    repeats = map_seeds(work, seeds, processes=processes, progress=progress)
    return [
        _summary(scenario, name, [repeat[scenario, name] for repeat in repeats])
        for scenario in SCENARIOS
        for name in RATINGS
    ]


@dataclass(frozen=True)
class _Once:
    score: Floats | None
    majority: tuple[bool, bool]
    """Whether A won most battles against B, and B against C."""


def _rate_all(closed: bool, seed: int) -> dict[tuple[Scenario, str], _Once]:
    results: dict[tuple[Scenario, str], _Once] = {}
    for scenario in SCENARIOS:
        arena = simulate_scenario(scenario, seed, closed=closed)
        size = VOTES_EACH_PAIR
        wins = arena.outcome[: 2 * size].reshape(2, size).mean(axis=1)
        majority = (bool(wins[0] > 1 / 2), bool(wins[1] > 1 / 2))
        for k, count in ELO_SETTINGS:
            score = play_orders(arena, k, count, seed, initial=INITIAL).mean(axis=0)
            results[scenario, f"elo K={k:g} N={count}"] = _Once(score, majority)
        for method in JOINT:
            rated = rate(arena, method)
            results[scenario, method] = _Once(
                None if rated is None else rated.score - rated.score.mean() + INITIAL, majority
            )
    return results


def _summary(scenario: Scenario, rating: str, repeats: Sequence[_Once]) -> Order:
    answered = [(once.score, once.majority) for once in repeats if once.score is not None]
    a, b, c = (mean_or_none(float(score[model]) for score, _ in answered) for model in (_A, _B, _C))
    return Order(
        scenario=scenario,
        rating=rating,
        a=a,
        b=b,
        c=c,
        true_order=mean_or_none(float(score[_A] > score[_B] > score[_C]) for score, _ in answered),
        order_of_votes=mean_or_none(
            float((score[_A] > score[_B], score[_B] > score[_C]) == majority) for score, majority in answered
        ),
        a_above_c=mean_or_none(float(score[_A] > score[_C]) for score, _ in answered),
        answered=len(answered),
    )
