"""What the rule finds and wrongs by the probability from which it flags, and whether stated probabilities hold."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from app.rating.arrays import Floats, Mask
from app.rating.errors import VotesError
from app.rating.simulation.worlds import Role, simulate_votes
from stable_arena_lab.arenas import Arena
from stable_arena_lab.attacks.arena import Votes
from stable_arena_lab.defences.gains import SERVICE, rate
from stable_arena_lab.parallel import Progress, map_seeds
from stable_arena_lab.spread import mean_or_none, se_or_none

PROBABILITIES = (0.5, 0.8, 0.9, 0.95, 0.99)
EDGES = (0.0, 0.05, 0.2, 0.5, 0.8, 0.9, 0.95, 1.0)
COINS, CONTRARY = 0.1, 0.03
MODELS, ABILITY_SD = 20, 0.3


@dataclass(frozen=True)
class Planted:
    """Votes whose bad annotators are known; masks of shape (n_annotators,).

    Attributes
    ----------
    low : truly at or below ε; None where the others' abilities are unknown
    """

    votes: Votes
    coins: Mask
    contrary: Mask
    low: Mask | None


@dataclass(frozen=True)
class Curve:
    """Shares flagged at one probability, means over the draws and standard errors.

    Attributes
    ----------
    tests : whether the tests flag too; else the rule on abilities alone
    """

    crowd: str
    probability: float
    tests: bool
    coins: float | None
    coins_se: float | None
    contrary: float | None
    contrary_se: float | None
    honest: float | None
    honest_se: float | None


@dataclass(frozen=True)
class Bin:
    """Annotators with a stated P(θ ≤ ε) from `least` to `most`, over all draws.

    Attributes
    ----------
    stated, true : mean of the stated probability, and share truly at or below ε; None without an annotator
    """

    crowd: str
    least: float
    most: float
    annotators: int
    stated: float | None
    true: float | None


def draw_crowd(seed: int, *, annotators: int, votes_each: int) -> Planted:
    """Draw a crowd with coins and contrary annotators."""
    coins, contrary = round(COINS * annotators), round(CONTRARY * annotators)
    roles: dict[Role, int] = {"honest": annotators - coins - contrary, "random": coins, "flip": contrary}
    drawn = simulate_votes(seed, n_models=MODELS, roles=roles, votes_each=votes_each, ability_sd=ABILITY_SD)
    votes = Votes(
        drawn.annotator, drawn.model_a, drawn.model_b, drawn.outcome, np.arange(len(drawn.outcome)), annotators, MODELS
    )
    role, ability = drawn.world.role, drawn.world.ability
    low = ability <= SERVICE.min_ability * ability[role == "honest"].mean()
    return Planted(votes, role == "random", role == "flip", low)


def plant(arena: Arena, seed: int) -> Planted:
    """Let a tenth of the annotators of real votes answer at random, with the file's ties, and some the contrary.

    Raises VotesError: the file has too few annotators for one of each.
    """
    generator, number = np.random.default_rng(seed), arena.n_annotators
    coins, contrary = max(1, round(COINS * number)), max(1, round(CONTRARY * number))
    if coins + contrary >= number:
        raise VotesError(f"{number} annotators are too few", "no-votes")
    order = generator.permutation(number)
    is_coin, is_contrary = np.isin(np.arange(number), order[:coins]), np.isin(np.arange(number), order[-contrary:])
    tied = float((arena.outcome == 0.5).mean())  # noqa: PLR2004  a tie
    u = generator.random(arena.n_votes)
    at_random = np.where(u < tied, 0.5, np.where(u < (1.0 + tied) / 2.0, 1.0, 0.0))
    voted = np.where(is_coin[arena.annotator], at_random, arena.outcome)
    voted = np.where(is_contrary[arena.annotator], 1.0 - voted, voted)
    left, right = (np.asarray(side, dtype=np.int64) for side in (arena.model_a, arena.model_b))
    annotator = np.asarray(arena.annotator, dtype=np.int64)
    votes = Votes(annotator, left, right, voted, np.arange(arena.n_votes), number, arena.n_models)
    return Planted(votes, is_coin, is_contrary, None)


def trace(
    crowd: str,
    draw: Callable[[int], Planted],
    seeds: Sequence[int],
    *,
    processes: int = 1,
    progress: Progress | None = None,
) -> tuple[list[Curve], list[Bin]]:
    """Draw and rate the votes for each seed; return the curve, and the bins where the truth is known.

    One fit serves all probabilities: they move an ability only through the unit, by who is flagged.
    """
    found = map_seeds(partial(_trace_once, draw), seeds, processes=processes, progress=progress)
    curves = []
    for tests in (False, True):
        for place, probability in enumerate(PROBABILITIES):
            shares = [each.shares[tests][place] for each in found]
            figures = [f(float(share[i]) for share in shares) for i in range(3) for f in (mean_or_none, se_or_none)]
            curves.append(Curve(crowd, probability, tests, *figures))
    known = [each for each in found if each.low is not None]
    if not known:
        return curves, []
    stated, low = (np.concatenate([getattr(each, name) for each in known]) for name in ("stated", "low"))
    return curves, _calibrate(crowd, stated, low)


@dataclass(frozen=True)
class _Traced:
    shares: dict[bool, list[tuple[float, float, float]]]
    stated: Floats
    low: Mask | None


def _trace_once(draw: Callable[[int], Planted], seed: int) -> _Traced:
    drawn = draw(seed)
    rating = rate(drawn.votes, SERVICE)
    if rating is None or rating.evidence is None:
        raise VotesError(f"the votes of seed {seed} have no ranking", "no-votes")
    stated, tested = rating.annotators.probability_low, rating.evidence.flagged()
    groups = (drawn.coins, drawn.contrary, ~drawn.coins & ~drawn.contrary)
    shares: dict[bool, list[tuple[float, float, float]]] = {False: [], True: []}
    for probability in PROBABILITIES:
        by_ability = (stated >= probability) & rating.evidence.supported
        for tests, flagged in ((False, by_ability), (True, by_ability | tested)):
            coins, contrary, honest = (float(flagged[group].mean()) for group in groups)
            shares[tests].append((coins, contrary, honest))
    return _Traced(shares, stated, drawn.low)


def _calibrate(crowd: str, stated: Floats, low: Mask) -> list[Bin]:
    bins = []
    for least, most in pairwise(EDGES):
        inside = (stated >= least) & ((stated < most) | (most == EDGES[-1]))
        known = bool(inside.any())
        means = (float(stated[inside].mean()), float(low[inside].mean())) if known else (None, None)
        bins.append(Bin(crowd, least, most, int(inside.sum()), *means))
    return bins
