"""What the intervals of each method hold in simulated crowds, and how well it predicts votes held out."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from scipy.special import expit, logit

from app.rating.arrays import Floats
from app.rating.errors import NotConvergedError, RatingError
from app.rating.settings import LoopSettings
from app.rating.simulation.worlds import draw_pairs
from app.rating.uncertainty.bounds import Matchups, predict_matchups
from app.rating.uncertainty.centre import weigh_models
from app.rating.units import ELO_PER_NATURAL
from app.rating.verdict.rating import estimate
from app.rating.votes.cells import Cells, aggregate
from stable_arena_lab.agreement import vote_losses
from stable_arena_lab.arenas import Arena
from stable_arena_lab.parallel import Progress, map_seeds
from stable_arena_lab.spread import mean_or_none, se_or_none

METHODS = {
    "am-elo": LoopSettings(min_votes=0),
    "m-elo": LoopSettings(min_votes=0, method="m-elo"),
    "plain": LoopSettings(min_votes=0, prior_sd=None),
}
ENDS = 2  # models at each end of the true ranking
HELD_OUT = 0.2


@dataclass(frozen=True)
class World:
    """A crowd to simulate.

    Attributes
    ----------
    votes_each : of every annotator
    score_sd : of the true scores, Elo points
    ability_sd : of the logarithm of honest abilities, whose mean is 1
    coins : share of annotators who answer at random
    neighbours : share of the battles that are between models next to each other in the true ranking
    taste_sd, lean_sd : of each annotator's own opinion of a model, and of the lean to the first one shown, Elo points
    pareto : votes of annotators follow a Pareto law of index 1.2, with the same mean
    tie_share : probability of a tie between equals
    """

    annotators: int
    votes_each: int
    models: int = 20
    score_sd: float = 140.0
    ability_sd: float = 0.3
    coins: float = 0.0
    neighbours: float = 0.0
    taste_sd: float = 0.0
    lean_sd: float = 0.0
    pareto: bool = False
    tie_share: float = 0.35


WORLDS = (
    *(World(2_000 // votes, votes) for votes in (5, 9, 20)),
    World(400, 3),
    World(100, 51),
    World(40, 200),
    *(World(annotators, votes, coins=0.1) for annotators, votes in ((400, 3), (400, 9), (200, 20), (100, 51))),
    World(60, 200, ability_sd=0.0),
    World(60, 200, ability_sd=0.6),
    *(World(annotators, 60, neighbours=0.9) for annotators in (200, 2_000)),
    World(20, 51),
    *(World(100, 51, score_sd=sd) for sd in (30.0, 70.0)),
    World(100, 51, models=5),
    World(400, 51, models=100),
    World(400, 51, pareto=True),
    World(100, 51, lean_sd=70.0),
    World(100, 51, taste_sd=70.0),
)
"""Crowds of every size, with few votes each, coins, unlike abilities, battles between neighbours, leans and tastes."""
PARETO = 1.2
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(41)  # of a standard normal law


@dataclass(frozen=True)
class Drawn:
    """A simulated crowd: true scores, Elo points, and the votes.

    A difference of true scores is the mean, over the honest annotators, of the log-odds of their votes. Tastes and
    leans are noise in these: they make the log-odds smaller.
    """

    score: Floats
    cells: Cells


@dataclass(frozen=True)
class Covered:
    """What a method found in the crowds of a world: means, and the scale's standard error.

    Attributes
    ----------
    every, ends : share of the 95 % intervals that hold the truth: of all models, of the two best and two worst
    pairs : the same of the win probabilities of all pairs
    scale : slope of the scores on the true ones; 1 is right
    error : root mean square of a score's error, Elo points
    failed : crowds without a result
    """

    method: str
    world: World
    every: float | None
    ends: float | None
    pairs: float | None
    scale: float | None
    scale_se: float | None
    error: float | None
    seconds: float | None
    failed: int


@dataclass(frozen=True)
class _Board:
    """Scores with half their intervals' widths, Elo points, around a centre with these weights, shape (n_models,)."""

    score: Floats
    half: Floats
    centre: Floats
    matchups: Matchups


def draw(world: World, seed: int) -> Drawn:
    """Draw a crowd; the same seed, the same votes."""
    generator = np.random.default_rng(seed)
    score = np.sort(generator.normal(0.0, world.score_sd, world.models))
    ability = np.exp(generator.normal(0.0, world.ability_sd, world.annotators) - world.ability_sd**2 / 2.0)
    ability[: round(world.coins * world.annotators)] = 0.0
    share = generator.pareto(PARETO, world.annotators) + 1.0 if world.pareto else np.ones(world.annotators)
    votes = np.maximum(np.rint(share / share.mean() * world.votes_each), 1.0).astype(np.int64)
    annotator = np.repeat(np.arange(world.annotators), votes)
    model_a, model_b = draw_pairs(generator, world.models, len(annotator))
    if world.neighbours:
        near = generator.random(len(annotator)) < world.neighbours
        below = generator.integers(0, world.models - 1, len(annotator))
        turned = generator.integers(0, 2, len(annotator))
        model_a, model_b = np.where(near, below + turned, model_a), np.where(near, below + 1 - turned, model_b)
    taste = generator.normal(0.0, 1.0, (world.annotators, world.models)) * world.taste_sd
    lean = generator.normal(0.0, 1.0, world.annotators) * world.lean_sd
    difference = score[model_a] - score[model_b] + taste[annotator, model_a] - taste[annotator, model_b]
    p = expit((ability[annotator] * difference + lean[annotator]) / ELO_PER_NATURAL)
    tie, u = 4.0 * p * (1.0 - p) * world.tie_share, generator.random(len(p))
    outcome = np.where(u < p - tie / 2.0, 1.0, np.where(u < p + tie / 2.0, 0.5, 0.0))
    cells = aggregate(annotator, model_a, model_b, outcome, n_annotators=world.annotators, n_models=world.models)
    return Drawn(_find_truth(world, score), cells)


def _find_truth(world: World, score: Floats) -> Floats:
    share = WEIGHTS / WEIGHTS.sum()
    ability = np.exp(world.ability_sd * NODES - world.ability_sd**2 / 2.0)
    noise = np.sqrt(2.0 * (ability * world.taste_sd) ** 2 + world.lean_sd**2)
    if not noise.any():
        return score
    difference = (score[:, None] - score)[..., None, None] * ability[:, None] + noise[:, None] * NODES
    log_odds = logit(expit(difference / ELO_PER_NATURAL) @ share) @ share
    truth: Floats = ELO_PER_NATURAL * log_odds.mean(axis=1)
    return truth


def cover(world: World, seeds: Sequence[int], *, processes: int = 1, progress: Progress | None = None) -> list[Covered]:
    """Draw a crowd for each seed and count what each method's intervals hold; one result for each of `METHODS`."""
    found = map_seeds(partial(_cover_once, world), seeds, processes=processes, progress=progress)
    return [_summarise(method, world, [each[method] for each in found]) for method in METHODS]


def _cover_once(world: World, seed: int) -> dict[str, tuple[float, ...] | None]:
    drawn = draw(world, seed)
    return {method: _compare(drawn, settings) for method, settings in METHODS.items()}


def _compare(drawn: Drawn, settings: LoopSettings) -> tuple[float, ...] | None:
    began = time.process_time()
    try:
        board = _rate(drawn.cells, settings)
    except RatingError:
        return None
    seconds = time.process_time() - began
    truth = drawn.score - board.centre @ drawn.score
    error = board.score - truth
    inside = np.abs(error) <= board.half
    ends = np.r_[inside[:ENDS], inside[-ENDS:]]
    pairs, chance = board.matchups, expit((drawn.score[:, None] - drawn.score) / ELO_PER_NATURAL)
    true = chance[pairs.model_a, pairs.model_b]
    held = (pairs.lower <= true) & (true <= pairs.upper)
    scale = float(board.score @ truth / (truth @ truth))
    return (
        float(inside.mean()),
        float(ends.mean()),
        float(held.mean()),
        scale,
        float(np.sqrt(np.mean(error**2))),
        seconds,
    )


def _summarise(method: str, world: World, found: Sequence[tuple[float, ...] | None]) -> Covered:
    rows = [each for each in found if each is not None]
    every, ends, pairs, scale, error, seconds = zip(*rows, strict=True) if rows else ((),) * 6
    return Covered(
        method, world, mean_or_none(every), mean_or_none(ends), mean_or_none(pairs), mean_or_none(scale),
        se_or_none(scale), mean_or_none(error), mean_or_none(seconds), len(found) - len(rows),
    )  # fmt: skip


def _rate(cells: Cells, settings: LoopSettings) -> _Board:
    rating = estimate(cells, settings)
    board, centre = rating.models, weigh_models(rating)
    if not rating.identified.all():
        raise NotConvergedError("a model has no score", board.score, rating.annotators.ability)
    half = (board.upper - board.lower) / 2.0
    return _Board(
        board.score - settings.base, half, centre, predict_matchups(rating, *np.triu_indices(cells.n_models, 1))
    )


@dataclass(frozen=True)
class HeldOut:
    """−ℓ per held-out vote: means over random splits.

    Attributes
    ----------
    lead, lead_se : less that of the engine in use, and its standard error
    """

    method: str
    loss: float | None
    lead: float | None
    lead_se: float | None
    failed: int
    losses: list[float | None] = field(repr=False)


def predict(
    source: Callable[[int], Arena], seeds: Sequence[int], *, processes: int = 1, progress: Progress | None = None
) -> list[HeldOut]:
    """Fit 80 % of the votes and predict the others, each by its annotator's ability; a result for each of `METHODS`."""
    found = map_seeds(partial(_predict_once, source), seeds, processes=processes, progress=progress)
    before = [each["m-elo"] for each in found]
    rows = []
    for method in METHODS:
        losses = [each[method] for each in found]
        leads = [
            one - other for one, other in zip(losses, before, strict=True) if one is not None and other is not None
        ]
        known = [loss for loss in losses if loss is not None]
        rows.append(
            HeldOut(method, mean_or_none(known), mean_or_none(leads), se_or_none(leads), losses.count(None), losses)
        )
    return rows


def _predict_once(source: Callable[[int], Arena], seed: int) -> dict[str, float | None]:
    arena = source(seed)
    order = np.random.default_rng(seed).permutation(arena.n_votes)
    held_out = round(HELD_OUT * arena.n_votes)
    test, train = arena.take(order[:held_out]), arena.take(order[held_out:]).cells()
    return {method: _loss(train, test, settings) for method, settings in METHODS.items()}


def _loss(train: Cells, test: Arena, settings: LoopSettings) -> float | None:
    try:
        rating = estimate(train, replace(settings, interval="none"))
        R, ability = rating.natural_scores(), rating.annotators.ability
    except RatingError:
        return None
    x = np.nan_to_num(ability, nan=1.0)[test.annotator] * (R[test.model_a] - R[test.model_b])
    return float(np.mean(vote_losses(expit(np.nan_to_num(x)), test.outcome)))
