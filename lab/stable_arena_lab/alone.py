"""Elo by the votes of each annotator alone: the am-ELO paper's Figure 1, which motivates abilities."""

from dataclasses import dataclass, replace

import numpy as np

from app.rating.arrays import Floats
from app.rating.plain.elo import fit_elo
from stable_arena_lab.arenas import Arena
from stable_arena_lab.methods import ELO_SHUFFLES


@dataclass(frozen=True)
class Alone:
    """A model's Elo score by one annotator's votes alone, mean over random orders, Elo points."""

    model: str
    annotator: int
    score: float


@dataclass(frozen=True)
class ModelSpread:
    """The scores of a model by the single annotators who voted on it, Elo points.

    Attributes
    ----------
    mean, sd : over the annotators; sd None for one
    least, most : of the scores
    range : most − least
    dealt_range : the same where the votes are dealt to the annotators at random, so that all are alike
    """

    model: str
    annotators: int
    mean: float
    sd: float | None
    least: float
    most: float
    range: float
    dealt_range: float


def rate_alone(arena: Arena, *, seed: int = 0, shuffles: int = ELO_SHUFFLES) -> tuple[list[Alone], list[ModelSpread]]:
    """Rate all models by each annotator's votes alone, and again by votes that are dealt to them at random."""
    dealt = replace(arena, annotator=np.random.default_rng(seed).permutation(arena.annotator))
    scores, of_dealt = (_scores(votes, seed, shuffles) for votes in (arena, dealt))
    points = [
        Alone(arena.name_of(int(model)), int(annotator), float(scores[annotator, model]))
        for annotator, model in np.argwhere(np.isfinite(scores))
    ]
    spreads = [_spread(arena.name_of(model), scores[:, model], of_dealt[:, model]) for model in range(arena.n_models)]
    return points, spreads


def _scores(arena: Arena, seed: int, shuffles: int) -> Floats:
    """Return the scores, shape (n_annotators, n_models); NaN where the annotator has no vote on the model."""
    scores = np.full((arena.n_annotators, arena.n_models), np.nan)
    for annotator in range(arena.n_annotators):
        own = arena.take(np.flatnonzero(arena.annotator == annotator))
        found = fit_elo(
            own.model_a, own.model_b, own.outcome, n_models=arena.n_models, shuffles=shuffles, seed=seed
        ).score
        judged = np.unique([own.model_a, own.model_b])
        scores[annotator, judged] = found[judged]
    return scores


def _spread(model: str, scores: Floats, dealt: Floats) -> ModelSpread:
    known, alike = scores[np.isfinite(scores)], dealt[np.isfinite(dealt)]
    sd = float(known.std(ddof=1)) if len(known) > 1 else None
    ends = float(known.min()), float(known.max())
    return ModelSpread(model, len(known), float(known.mean()), sd, *ends, float(np.ptp(known)), float(np.ptp(alike)))
