"""Annotators whose ability changes, and such whose ability stays: how often the evidence of drift says so."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import expit

from app.rating.arrays import Floats
from app.rating.simulation.worlds import draw_pairs
from app.rating.types.drift import ABILITIES, AbilityChange, find_drift
from app.rating.units import NATURAL_PER_ELO
from stable_arena_lab.parallel import Progress, map_seeds
from stable_arena_lab.spread import mean_or_none, sd_or_none

MODELS = 20
TIE_SHARE, TIE_SPREAD = 0.32, 0.7  # of ties between equals; standard deviation of its log odds over annotators
SCORE_ERROR = 20.0  # Elo points by which the scores are known
LEVELS = (10.0, 100.0)
HALF = 0.5
LEAST = 1e-9  # probability: no verdict is impossible


@dataclass(frozen=True)
class Behaviour:
    """How an annotator's votes change.

    Attributes
    ----------
    spread : standard deviation of the log of the ability
    before, after : ability in the first and in the second half of the votes; None is the annotator's own
    gradual : whether the ability moves from the one to the other vote by vote
    taste : standard deviation of the own opinion of each model, Elo points
    moves_on : whether the first half of the votes is on one half of the models, the second on the other
    """

    spread: float = 0.3
    before: float | None = None
    after: float | None = None
    gradual: bool = False
    taste: float = 0.0
    moves_on: bool = False

    def abilities(self, own: float, age: Floats) -> Floats:
        """Return the ability at each vote; `age` is the share of the votes cast before."""
        first, last = (own if end is None else end for end in (self.before, self.after))
        share = age if self.gradual else np.where(age < HALF, 0.0, 1.0)
        ability: Floats = first + (last - first) * share
        return ability


BEHAVIOURS: Mapping[str, Behaviour] = {
    "one ability": Behaviour(),
    "one ability, sd .6": Behaviour(spread=0.6),
    "one ability, tastes, then other models": Behaviour(taste=100.0, moves_on=True),
    "becomes a coin": Behaviour(after=0.0),
    "becomes a coin slowly": Behaviour(after=0.0, gradual=True),
    "was a coin": Behaviour(before=0.0),
    "turns against the ranking": Behaviour(after=-1.0),
}


@dataclass(frozen=True)
class Watch:
    """Annotators of one kind; the abilities that change are 1 on average before or after."""

    behaviour: str
    votes_each: int
    score_sd: float
    annotators: int = 40


@dataclass(frozen=True)
class Alarms:
    """How often the likelihood ratio reaches a level.

    Attributes
    ----------
    reached, reached_se : share of the annotators, and its standard error over the crowds
    time : median share of the votes before the likeliest change, of the annotators who reach the level
    """

    watch: Watch
    level: float
    annotators: int
    reached: float | None
    reached_se: float | None
    time: float | None


def watch_all(
    watches: Sequence[Watch], *, seeds: Sequence[int], processes: int = 1, progress: Progress | None = None
) -> list[Alarms]:
    """Draw a crowd of every kind for each seed: one result for each kind and level."""
    work = partial(_watch_place, watches=tuple(watches), seeds=tuple(seeds))
    drawn = map_seeds(work, range(len(watches) * len(seeds)), processes=processes, progress=progress)
    alarms = []
    for place, watch in enumerate(watches):
        mine = drawn[place * len(seeds) : (place + 1) * len(seeds)]
        for level in LEVELS:
            reached = [crowd[0] >= np.log(level) for crowd in mine]
            times = np.concatenate([crowd[1][found] for crowd, found in zip(mine, reached, strict=True)])
            shares = [float(found.mean()) for found in reached]
            sd = sd_or_none(shares)
            alarms.append(
                Alarms(
                    watch, level, len(seeds) * watch.annotators, mean_or_none(shares),
                    None if sd is None else sd / float(np.sqrt(len(seeds))),
                    float(np.median(times)) if len(times) else None,
                )
            )  # fmt: skip
    return alarms


def draw_annotator(generator: np.random.Generator, watch: Watch, score: Floats) -> Floats:
    """Draw the decided votes of an annotator: log P(verdict | ability, no tie), shape (n_decided, n_abilities).

    Verdicts follow Davidson's model with the mean σ(a d). The likelihood knows the scores up to 20 points, and the
    crowd's readiness to tie, not the annotator's.
    """
    how, number = BEHAVIOURS[watch.behaviour], watch.votes_each
    own = float(np.exp(how.spread * generator.standard_normal()))
    crowd = 2.0 * TIE_SHARE / (1.0 - TIE_SHARE)
    readiness = crowd * float(np.exp(TIE_SPREAD * generator.standard_normal()))
    seen = score + how.taste * generator.standard_normal(MODELS)
    age = np.arange(number) / number
    left, right = draw_pairs(generator, MODELS // 2 if how.moves_on else MODELS, number)
    if how.moves_on:
        half = generator.permutation(MODELS).reshape(2, -1)
        period = (age >= HALF).astype(np.int64)
        left, right = half[period, left], half[period, right]
    x = _strength(how.abilities(own, age) * NATURAL_PER_ELO * (seen[left] - seen[right]), readiness)
    decided = generator.random(number) >= readiness * x / (x * x + readiness * x + 1.0)
    left, right, x = left[decided], right[decided], x[decided]
    won = generator.random(len(x)) < x * x / (x * x + 1.0)
    known = score + SCORE_ERROR * generator.standard_normal(MODELS)
    gap = NATURAL_PER_ELO * (known[left] - known[right])
    odds = 2.0 * np.log(_strength(gap[:, None] * ABILITIES, crowd))
    log_likelihood: Floats = -np.logaddexp(0.0, np.where(won[:, None], -odds, odds))
    return log_likelihood


def _strength(d: Floats, readiness: float) -> Floats:
    """Return x of a vote that is won, tied or lost with weights x² : readiness · x : 1, and has the mean σ(d)."""
    p = np.clip(expit(d), LEAST, 1.0 - LEAST)
    bend = readiness * (p - 0.5)
    strength: Floats = (bend + np.sqrt(bend**2 + 4.0 * p * (1.0 - p))) / (2.0 * (1.0 - p))
    return strength


def _watch_place(place: int, *, watches: Sequence[Watch], seeds: Sequence[int]) -> tuple[Floats, Floats]:
    """Return the log ratio of each annotator, and the share of the votes before the likeliest change."""
    watch = watches[place // len(seeds)]
    generator = np.random.default_rng(seeds[place % len(seeds)])
    score = watch.score_sd * generator.standard_normal(MODELS)
    found = [_weigh(draw_annotator(generator, watch, score)) for _ in range(watch.annotators)]
    log_ratio, time = zip(*found, strict=True)
    return np.array(log_ratio), np.array(time)


def _weigh(log_likelihood: Floats) -> tuple[float, float]:
    drift: AbilityChange | None = find_drift(log_likelihood)
    return (0.0, np.nan) if drift is None else (drift.log_ratio, drift.votes_before / len(log_likelihood))
