"""Searches the attack that gains most against one leaderboard, by simulating that leaderboard."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from app.rating.arrays import Floats
from app.rating.settings import LoopSettings
from stable_arena_lab.attacks.arena import Setup
from stable_arena_lab.attacks.tuned import ANY_GAP, TUNED, Tuning
from stable_arena_lab.defences.gains import BOARDS, Contest, Gain, Outcome, summarise
from stable_arena_lab.parallel import Progress, map_seeds

ELITE = 0.25  # share of a generation from which the next one is drawn
NARROWEST = 0.05  # standard deviation in each dimension, so that the search goes on
FINALISTS = 8  # compared again on crowds that the search has not seen
POINT = 1e-3  # of a rank: points tell two attacks apart that gain equal ranks

DIMENSIONS = ("ability", "ties", "rate", "gap", "honest_first", "chosen")
LOWEST = np.array([np.log(0.5), 0.0, 0.0, np.log(20.0), 0.0, 0.0])
HIGHEST = np.array([np.log(6.0), 1.5, 1.0, np.log(1_000.0), 0.8, 1.0])
LOGARITHMS = np.array([True, False, False, True, False, False])


@dataclass(frozen=True)
class Effort:
    """How long to search.

    Attributes
    ----------
    generations, population : of the cross-entropy search
    crowds : simulated by the attacker, the same for all attacks that are compared
    """

    generations: int = 6
    population: int = 24
    crowds: int = 10


@dataclass(frozen=True)
class Case:
    """One search: the arena, the leaderboard that the attackers tune against, and whether they choose battles."""

    setup: Setup
    board: str
    choose: bool


@dataclass(frozen=True)
class Found:
    """The best attack that a search found, and its gains on fresh crowds, by leaderboard."""

    case: Case
    tuning: Tuning
    gains: tuple[Gain, ...]


def search_all(
    cases: Sequence[Case],
    effort: Effort,
    *,
    seeds: Sequence[int],
    boards: Mapping[str, LoopSettings] = BOARDS,
    processes: int = 1,
    progress: Progress | None = None,
) -> list[Found]:
    """Search the best attack of each case, and let it attack a fresh crowd for each seed.

    Parameters
    ----------
    seeds : of the crowds that the gains are measured on; the search has others
    """
    work = partial(_search_case, cases=tuple(cases), effort=effort, seeds=tuple(seeds), boards=boards)
    return map_seeds(work, range(len(cases)), processes=processes, progress=progress)


def _search_case(
    place: int, *, cases: Sequence[Case], effort: Effort, seeds: Sequence[int], boards: Mapping[str, LoopSettings]
) -> Found:
    case = cases[place]
    tuning = find_best(case.setup, boards[case.board], effort, choose=case.choose, seed=place)
    outcomes = [Contest(seed, case.setup, boards).attack(tuning) for seed in seeds]
    gains = tuple(summarise(name, outcomes) for name in boards)
    return Found(case, tuning, gains)


def find_best(setup: Setup, board: LoopSettings, effort: Effort, *, choose: bool, seed: int = 0) -> Tuning:
    """Search the tuning with the largest mean gain in ranks: the cross-entropy method.

    A generation is drawn from a normal distribution around the best quarter of the generation before. The first one
    holds the known attacks too, so that the search is never behind them. All attacks meet the same crowds with the
    same random numbers. The best of all generations meet new crowds, and the best there is returned: what looks best
    among hundreds of attacks is partly luck.

    Parameters
    ----------
    choose : whether attackers may choose battles; else all are uniform

    References
    ----------
    Rubinstein and Kroese, The Cross-Entropy Method, 2004.
    """
    generator = np.random.default_rng([seed, 2])
    training, validation = (
        [Contest(int(each), setup, {"": board}) for each in generator.integers(2**31, 2**32, effort.crowds)]
        for _ in range(2)
    )
    known = [_position(tuning) for tuning in TUNED.values() if tuning.vendors == 1]
    points = np.vstack([*known, generator.random((effort.population, len(DIMENSIONS)))])
    tried: list[tuple[float, tuple[float, ...]]] = []
    for _ in range(effort.generations):
        values = np.array([_value(_tuning(point, choose=choose), training) for point in points])
        tried += [(float(value), tuple(point)) for value, point in zip(values, points, strict=True)]
        best = points[np.argsort(-values)[: max(2, round(ELITE * effort.population))]]
        middle, width = best.mean(axis=0), np.maximum(best.std(axis=0), NARROWEST)
        points = np.clip(middle + width * generator.standard_normal((effort.population, len(DIMENSIONS))), 0.0, 1.0)
    finalists = [np.array(point) for _, point in sorted(set(tried), reverse=True)[:FINALISTS]]
    again = [_value(_tuning(point, choose=choose), validation) for point in finalists]
    return _tuning(finalists[int(np.argmax(again))], choose=choose)


def _value(tuning: Tuning, contests: Sequence[Contest]) -> float:
    """Return the mean gain, in ranks; −∞ where every fit failed."""
    outcomes: list[Outcome] = [contest.attack(tuning)[""] for contest in contests]
    worth = np.array([one.ranks + POINT * one.points for one in outcomes])
    return float(np.nanmean(worth)) if np.isfinite(worth).any() else -np.inf


def _tuning(point: Floats, *, choose: bool) -> Tuning:
    """Return the tuning at a point of the unit cube."""
    values = LOWEST + point * (HIGHEST - LOWEST)
    values[LOGARITHMS] = np.exp(values[LOGARITHMS])
    tuning = Tuning(**dict(zip(DIMENSIONS, map(float, values), strict=True)))  # type: ignore[arg-type]  # by name
    return tuning if choose else replace(tuning, chosen=0.0)


def _position(tuning: Tuning) -> Floats:
    """Return the point of a tuning in the unit cube."""
    values = np.array([min(getattr(tuning, name), ANY_GAP) for name in DIMENSIONS])
    values[LOGARITHMS] = np.log(values[LOGARITHMS])
    point: Floats = np.clip((values - LOWEST) / (HIGHEST - LOWEST), 0.0, 1.0)
    return point
