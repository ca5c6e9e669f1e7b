"""What is lost without each part of the engine: differences to the whole of it in the same worlds."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from app.rating.arrays import Floats, Indices, Mask
from app.rating.errors import RatingError
from app.rating.settings import LoopSettings
from app.rating.simulation.worlds import Role, draw_pairs, make_world
from app.rating.uncertainty.centre import weigh_models
from app.rating.verdict.round import run_round
from app.rating.votes.cells import aggregate
from stable_arena_lab.attacks.arena import Setup, Votes
from stable_arena_lab.attacks.tuned import TUNED, Tuning
from stable_arena_lab.defences.gains import FLAGGED, SERVICE, Contest, rate
from stable_arena_lab.defences.habits import MODELS, Crowd, draw
from stable_arena_lab.defences.niche import Niche, draw_niche
from stable_arena_lab.parallel import Progress, map_seeds
from stable_arena_lab.parts import OF_ERRORS, without
from stable_arena_lab.spread import mean_or_none, se_or_none

FIGURES = ("ranks", "found", "wronged", "coverage", "width", "scale", "error")
LEAST = {"ranks": 0.05, "found": 0.01, "wronged": 0.002, "coverage": 0.005, "scale": 0.003, "error": 0.1}
"""Changes that matter: of a rank, of shares, of a slope, and of Elo points."""
RIGHT = {"coverage": 0.95, "scale": 1.0}
ABILITY_SD, OWN_VOTE = 0.3, 0.05
Found = Mapping[str, float]


@dataclass(frozen=True)
class Attack:
    """Attackers of an arena: the ranks that they gain, who is found, and who is wronged."""

    attack: str | Tuning
    setup: Setup

    def measure(self, seed: int) -> Found:
        """Return the figures of one arena; nothing where a fit fails."""
        outcome = Contest(seed, self.setup, {"service": SERVICE}).attack(self.attack)["service"]
        return {"ranks": outcome.ranks, "found": outcome.found, "wronged": outcome.wronged}


@dataclass(frozen=True)
class Habitual:
    """A crowd with habits, or a niche, and bad annotators: who is found, and who is wronged."""

    crowd: Crowd | Niche

    def measure(self, seed: int) -> Found:
        """Return the figures of one crowd."""
        votes, bad, honest = self.draw(seed)
        rating = rate(votes, SERVICE)
        if rating is None:
            return {}
        flagged = np.isin(rating.annotators.standing, FLAGGED)
        return {"found": float(flagged[bad].mean()), "wronged": float(flagged[honest].mean())}

    def draw(self, seed: int) -> tuple[Votes, Mask, Mask]:
        """Return the votes, and who is bad and who is honest (of a niche, its judges)."""
        if isinstance(self.crowd, Niche):
            niche = self.crowd
            places = np.arange(niche.crowd + niche.judges + niche.framers)
            framers = places >= niche.crowd + niche.judges
            return draw_niche(seed, niche), framers, (places >= niche.crowd) & ~framers
        annotator, left, right, outcome, bad = draw(seed, self.crowd)
        time = np.arange(len(annotator))
        return Votes(annotator, left, right, outcome, time, self.crowd.annotators, MODELS), bad, ~bad


@dataclass(frozen=True)
class Scored:
    """A crowd whose true scores are known: what the 95 % intervals hold, their width, the scores' scale and error.

    Attributes
    ----------
    votes_each : of every annotator but the busy ones
    busy, busy_votes : how many have more votes, and how many
    copies : annotators who repeat the first one's votes, but for one of twenty
    ability_sd : of the logarithm of honest abilities
    lone : votes of the first annotator on a model that nobody else votes on
    """

    annotators: int
    votes_each: int
    coins: float = 0.0
    busy: int = 0
    busy_votes: int = 0
    copies: int = 0
    ability_sd: float = ABILITY_SD
    lone: int = 0
    settings: LoopSettings = field(default_factory=lambda: LoopSettings(min_votes=0))

    def measure(self, seed: int) -> Found:
        """Return the figures of one crowd; nothing where the fit fails."""
        coins = round(self.coins * self.annotators)
        roles: dict[Role, int] = {"honest": self.annotators - coins, "random": coins}
        generator = np.random.default_rng(seed)
        world = make_world(generator, n_models=MODELS, roles=roles, ability_sd=self.ability_sd)
        number = np.full(self.annotators, self.votes_each)
        number[: self.busy] = self.busy_votes
        k = np.repeat(np.arange(self.annotators), number)
        a, b = draw_pairs(generator, MODELS, len(k))
        if self.lone:
            others = (a > 0) & (b > 0)
            k, a = (
                np.append(k[others], np.zeros(self.lone, dtype=k.dtype)),
                np.append(a[others], np.zeros(self.lone, int)),
            )
            b = np.append(b[others], generator.integers(1, MODELS, self.lone))
        outcome = world.vote(k, a, b, generator)
        size, again = self.annotators + self.copies, world.vote(np.zeros_like(k), a, b, generator)
        votes = self._repeat((k, a, b, outcome), again, generator)
        try:
            rating = run_round(aggregate(*votes, n_annotators=size, n_models=MODELS), self.settings)
        except RatingError:
            return {}
        models, centre = rating.models, weigh_models(rating)
        truth = math.exp(self.ability_sd**2 / 2.0) * (world.score - 1000.0)  # in points of the average honest annotator
        truth -= centre @ truth
        score = models.score - self.settings.base
        inside = np.abs(score - truth) <= (models.upper - models.lower) / 2.0
        flagged, places = np.isin(rating.annotators.standing, FLAGGED), np.arange(size)
        coin = (places >= self.annotators - coins) & (places < self.annotators)
        figures = {
            "coverage": float(inside.mean()), "width": float(np.mean(models.upper - models.lower)),
            "scale": float(score @ truth / (truth @ truth)), "error": float(np.sqrt(np.mean((score - truth) ** 2))),
            "wronged": float(flagged[~coin].mean()),
        }  # fmt: skip
        return figures | ({"found": float(flagged[coin].mean())} if coins else {})

    def _repeat(
        self, votes: tuple[Indices, Indices, Indices, Floats], again: Floats, generator: np.random.Generator
    ) -> tuple[Indices, Indices, Indices, Floats]:
        """Add copies of the first annotator; a twentieth of their votes are as in `again`."""
        k, a, b, outcome = votes
        mine = np.flatnonzero(k == 0)
        copied = np.tile(mine, self.copies)
        own = np.where(generator.random(len(copied)) < OWN_VOTE, again[copied], outcome[copied])
        whose = np.repeat(self.annotators + np.arange(self.copies), len(mine))
        return np.append(k, whose), np.append(a, a[copied]), np.append(b, b[copied]), np.append(outcome, own)


SMALL, LARGE = Setup(), Setup(votes_each=200)
WORLDS: Mapping[str, Attack | Habitual | Scored] = {
    "target only": Attack("target-only", SMALL),
    "mimics": Attack("mimic", SMALL),
    "copycats": Attack("copycats", SMALL),
    "slow drift": Attack("slow-drift", SMALL),
    "flood": Attack("target-only", Setup(attack_votes=500)),
    "close pairs, 200": Attack(TUNED["close pairs"], LARGE),
    "tuned mimics, 200": Attack(TUNED["tuned mimic"], LARGE),
    "able favourers, 200": Attack(TUNED["able favourer"], LARGE),
    "coins": Habitual(Crowd(bad="coin", votes_each=60)),
    "tastes and coins": Habitual(Crowd("tastes, sd 200", "coin", votes_each=200)),
    "leans and coins": Habitual(Crowd("lean, sd 300", "coin", votes_each=60)),
    "always a tie": Habitual(Crowd(bad="equal", votes_each=60)),
    "always left": Habitual(Crowd("lean, sd 150", "always-left", votes_each=200)),
    "niche": Habitual(Niche(judges=5, votes_each=60)),
    "400 × 5": Scored(400, 5),
    "100 × 51, coins": Scored(100, 51, coins=0.1),
    "400 × 9, coins": Scored(400, 9, coins=0.1),
    "20 × 51": Scored(20, 51),
    "3 × 300": Scored(3, 300),
    "8 × 200": Scored(8, 200),
    "60 × 200, unlike": Scored(60, 200, ability_sd=0.6),
    "one judge": Scored(20, 60, lone=60),
    "busy ones": Scored(40, 40, busy=2, busy_votes=1_000),
    "copies": Scored(30, 100, copies=4),
}
"""Worlds in which some part is needed, by name."""


@dataclass(frozen=True)
class Loss:
    """A figure without a part less that of the whole engine in the same worlds, and its standard error."""

    part: str
    world: str
    figure: str
    whole: float | None
    change: float | None
    se: float | None

    @property
    def harm(self) -> float:
        """By how much the figure is worse without the part; below 0, better. No width is worse than another."""
        if self.whole is None or self.change is None or self.figure == "width":
            return 0.0
        if self.figure in RIGHT:
            right = RIGHT[self.figure]
            return abs(self.whole + self.change - right) - abs(self.whole - right)
        return -self.change if self.figure == "found" else self.change

    @property
    def errors(self) -> float:
        """The harm in standard errors; 0 where it is smaller than anything that matters."""
        if abs(self.harm) < LEAST.get(self.figure, 0.0) or not self.harm:
            return 0.0
        return self.harm / self.se if self.se else math.copysign(math.inf, self.harm)


def measure_losses(
    parts: Sequence[str],
    worlds: Sequence[str],
    seeds: Sequence[int],
    *,
    processes: int = 1,
    progress: Progress | None = None,
) -> list[Loss]:
    """Draw every world for each seed, and rate it with the whole engine and without each part."""
    work = partial(_measure_once, parts=tuple(parts), worlds=tuple(worlds))
    drawn = map_seeds(work, seeds, processes=processes, progress=progress)
    nan = float("nan")
    losses = []
    for part in parts:
        for world in worlds:
            for figure in FIGURES:
                whole = [each[world, ""].get(figure, nan) for each in drawn]
                out = [each.get((world, part), {}).get(figure, nan) for each in drawn]
                changes = [one - other for one, other in zip(out, whole, strict=True)]
                if not np.isnan(changes).all():
                    found = mean_or_none(whole), mean_or_none(changes), se_or_none(changes)
                    losses.append(Loss(part, world, figure, *found))
    return losses


def _measure_once(seed: int, *, parts: tuple[str, ...], worlds: tuple[str, ...]) -> dict[tuple[str, str], Found]:
    measures: dict[str, Callable[[int], Found]] = {name: WORLDS[name].measure for name in worlds}
    found = {(world, ""): measure(seed) for world, measure in measures.items()}
    for part in parts:
        touched = [world for world in worlds if part not in OF_ERRORS or isinstance(WORLDS[world], Scored)]
        with without(part):
            found |= {(world, part): measures[world](seed) for world in touched}
    return found
