"""Crowds whose honest annotators have habits: which of them the rules wrong, and which bad annotators they find."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from app.rating.arrays import Floats, Indices, Mask
from app.rating.settings import LoopSettings
from app.rating.simulation.worlds import draw_pairs
from app.rating.types.evidence import Weigher
from app.rating.units import NATURAL_PER_ELO
from app.rating.verdict.round import run_round
from app.rating.votes.cells import aggregate
from app.rating.votes.features import SidedCells
from stable_arena_lab.defences.gains import FLAGGED
from stable_arena_lab.parallel import Progress, map_seeds
from stable_arena_lab.spread import mean_or_none, sd_or_none

MODELS, FAMILIES, TIERS = 20, 5, 4
TIE_SHARE = 0.32  # of ties between equals
LAZY = 0.8  # share of a lazy annotator's votes that are at random


@dataclass(frozen=True)
class World:
    """How honest annotators differ, apart from their abilities: log-normal, sd 0.3.

    Attributes
    ----------
    ties : standard deviation of the log odds of a tie between equals
    lean, taste, family : standard deviations, in Elo points, of a lean to the left, and of an own opinion of each
        model, and of each of five families of models
    tiers : share of careful annotators: they tie nine of ten battles within a tier of five models, and one of fifty
        across
    leaners, by : share of annotators who lean besides, to either side in turn, and by how many Elo points
    """

    ties: float = 0.0
    lean: float = 0.0
    taste: float = 0.0
    family: float = 0.0
    tiers: float = 0.0
    leaners: float = 0.0
    by: float = 0.0


WORLDS = {
    "alike": World(),
    "readiness to tie, sd 1.5": World(ties=1.5),
    "lean, sd 150": World(lean=150.0),
    "lean, sd 300": World(lean=300.0),
    "one in 14 leans 150 points": World(leaners=1 / 14, by=150.0),
    "one in 14 leans 300 points": World(leaners=1 / 14, by=300.0),
    "one in 14 leans 400 points": World(leaners=1 / 14, by=400.0),
    "tastes, sd 200": World(taste=200.0),
    "tastes in families, sd 200": World(family=200.0),
    "a third think in tiers": World(tiers=1 / 3),
}
BAD = ("coin", "flip", "equal", "lazy", "always-left")


@dataclass(frozen=True)
class Crowd:
    """One crowd's size and kind; `bad` is of `BAD`, or "" for an honest crowd."""

    world: str = "alike"
    bad: str = ""
    annotators: int = 42
    votes_each: int = 51
    score_sd: float = 140.0
    share: float = 0.1

    @property
    def leaners(self) -> Mask:
        """The few who lean in a crowd that does not, shape (n_annotators,)."""
        return np.arange(self.annotators) < round(WORLDS[self.world].leaners * self.annotators)


@dataclass(frozen=True)
class Judged:
    """Shares of a crowd's bad annotators found, and of its honest ones wronged, by one rule over the seeds."""

    crowd: Crowd
    rule: str
    found: float | None
    found_sd: float | None
    wronged: float | None
    wronged_sd: float | None


def judge_crowds(
    crowds: Sequence[Crowd], *, seeds: Sequence[int], processes: int = 1, progress: Progress | None = None
) -> list[Judged]:
    """Draw every crowd for each seed, and return what each rule finds: one result for each crowd and rule."""
    work = partial(_judge_place, crowds=tuple(crowds), seeds=tuple(seeds))
    places = range(len(crowds) * len(seeds))
    drawn = map_seeds(work, places, processes=processes, progress=progress)
    results = []
    for place, crowd in enumerate(crowds):
        mine = drawn[place * len(seeds) : (place + 1) * len(seeds)]
        for rule in mine[0]:
            found, wronged = ([one[rule][which] for one in mine] for which in (0, 1))
            results.append(
                Judged(crowd, rule, mean_or_none(found), sd_or_none(found), mean_or_none(wronged), sd_or_none(wronged))
            )
    return results


def _judge_place(place: int, *, crowds: tuple[Crowd, ...], seeds: tuple[int, ...]) -> dict[str, tuple[float, float]]:
    return _judge_once(seeds[place % len(seeds)], crowd=crowds[place // len(seeds)])


def _judge_once(seed: int, *, crowd: Crowd) -> dict[str, tuple[float, float]]:
    """Return the shares found and wronged by each rule."""
    a, left, right, outcome, bad = draw(seed, crowd)
    people = crowd.annotators
    cells = aggregate(a, left, right, outcome, n_annotators=people, n_models=MODELS)
    settings = LoopSettings(min_votes=0, interval="none")
    weigher = Weigher(SidedCells.of_votes(a, left, right, outcome, n_annotators=people, n_models=MODELS))
    rating = run_round(cells, settings, weigher=weigher)
    bare = run_round(cells, replace(settings, flag_rule="threshold"))
    rules = {
        "bare ε": bare.annotators.ability <= settings.min_ability,
        "the service's": np.isin(rating.annotators.standing, FLAGGED),
    }
    return {
        name: (float(marked[bad].mean()) if bad.any() else float("nan"), float(marked[~bad].mean()))
        for name, marked in rules.items()
    }


def draw(seed: int, crowd: Crowd) -> tuple[Indices, Indices, Indices, Floats, Mask]:
    """Draw a crowd's votes: annotator, left, right, W for the left; and who is bad, shape (n_annotators,)."""
    generator, world, people = np.random.default_rng(seed), WORLDS[crowd.world], crowd.annotators
    score = crowd.score_sd * generator.standard_normal(MODELS)
    ability = np.exp(0.3 * generator.standard_normal(people))
    even = np.log(TIE_SHARE / (1.0 - TIE_SHARE)) + world.ties * generator.standard_normal(people)
    lean = NATURAL_PER_ELO * world.lean * generator.standard_normal(people)
    lean += NATURAL_PER_ELO * world.by * np.where(np.arange(people) % 2, -1.0, 1.0) * crowd.leaners
    seen = score + world.taste * generator.standard_normal((people, MODELS))
    family = generator.permutation(MODELS) % FAMILIES
    seen += world.family * generator.standard_normal((people, FAMILIES))[:, family]
    k = np.repeat(np.arange(people), crowd.votes_each)
    left, right = draw_pairs(generator, MODELS, len(k))
    d = NATURAL_PER_ELO * (seen[k, left] - seen[k, right])
    y = 0.5 * (ability[k] * d + lean[k])
    up, tie = np.exp(y), 2.0 * np.exp(even[k])  # between equals: share of ties = tie / (tie + 2)
    won, tied = up / (up + tie + 1.0 / up), tie / (up + tie + 1.0 / up)
    tier = np.argsort(np.argsort(score)) * TIERS // MODELS
    same, careful = tier[left] == tier[right], (np.arange(people) < round(world.tiers * people))[k]
    tied = np.where(careful, np.where(same, 0.9, 0.02), tied)
    won = np.where(careful, (1.0 - tied) * np.where(same, 0.5, np.where(tier[left] > tier[right], 0.95, 0.05)), won)
    draws = generator.random(len(k))
    outcome = np.where(draws < won, 1.0, np.where(draws < won + tied, 0.5, 0.0))
    bad = np.arange(people) >= people - (max(1, round(crowd.share * people)) if crowd.bad else 0)
    return k, left, right, np.where(bad[k], _vote_badly(crowd.bad, outcome, generator), outcome), bad


def _vote_badly(how: str, honest: Floats, generator: np.random.Generator) -> Floats:
    """Return W of bad annotators in place of their honest votes."""
    draws = generator.random(len(honest))
    at_random = np.where(draws < 0.5 - TIE_SHARE / 2, 1.0, np.where(draws < 0.5 + TIE_SHARE / 2, 0.5, 0.0))
    lazy = np.where(generator.random(len(honest)) < LAZY, at_random, honest)
    ways = {
        "coin": at_random, "flip": 1.0 - honest, "equal": np.full(len(honest), 0.5), "lazy": lazy,
        "always-left": np.ones(len(honest)),
    }  # fmt: skip
    return ways.get(how, honest)
