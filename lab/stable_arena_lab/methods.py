from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.errors import NoCommonRankingError, NoFiniteMaximumError, NotConvergedError
from app.rating.plain.elo import fit_elo, play
from app.rating.settings import LoopSettings
from app.rating.units import NATURAL_PER_ELO
from app.rating.verdict.round import run_round
from stable_arena_lab.arenas import Arena

Method = Literal["elo", "elo bootstrap", "m-elo", "am-elo plain", "am-elo robust"]
"""elo: the mean over random orders, as the am-ELO paper describes it. elo bootstrap: the median over resamples of the
votes, as its authors' code computes it."""
EVERY_METHOD: tuple[Method, ...] = get_args(Method)
METHODS: tuple[Method, ...] = ("elo", "m-elo", "am-elo plain", "am-elo robust")
ELO_SHUFFLES = 1_000  # as in the am-ELO paper
K, INITIAL = 4.0, 1_000.0

SETTINGS = {
    "m-elo": LoopSettings(method="m-elo", min_votes=0, interval="none"),
    "am-elo plain": LoopSettings(min_votes=0, flag_rule="threshold", prior_sd=None, interval="none"),
    "am-elo robust": LoopSettings(min_votes=0, flag_rule="threshold", interval="none"),
}


@dataclass(frozen=True)
class Rated:
    """The result of a method on an arena's votes.

    Attributes
    ----------
    score : Elo points, NaN for a model that is not identified, shape (n_models,)
    component : connected component of each model, shape (n_models,)
    ability : published units (1 is the mean), 1 where there is no estimate, shape (n_annotators,)
    """

    score: Floats
    component: Indices
    ability: Floats

    def predict(self, votes: Arena) -> Floats:
        """Return P(model_a wins) for each vote, ½ where a score is missing or no vote links the two models."""
        a, b = votes.model_a, votes.model_b
        difference = NATURAL_PER_ELO * (self.score[a] - self.score[b])
        known = np.isfinite(difference) & (self.component[a] == self.component[b])
        x = np.where(known, self.ability[votes.annotator] * np.where(known, difference, 0.0), 0.0)
        probability: Floats = 1.0 / (1.0 + np.exp(-x))
        return probability


def rate(arena: Arena, method: Method, *, seed: int = 0, shuffles: int = ELO_SHUFFLES) -> Rated | None:
    """Rate an arena's votes; None where the method has no finite maximum or finds no common ranking.

    Parameters
    ----------
    seed, shuffles : of Elo: how many random orders, or resamples
    """
    if method == "elo bootstrap":
        score, _ = bootstrap_elo(arena, resamples=shuffles, seed=seed)
        return Rated(score, np.zeros(arena.n_models, dtype=np.int64), np.ones(arena.n_annotators))
    if method == "elo":
        result = fit_elo(
            arena.model_a, arena.model_b, arena.outcome, n_models=arena.n_models, shuffles=shuffles, seed=seed
        )
        return Rated(result.score, np.zeros(arena.n_models, dtype=np.int64), np.ones(arena.n_annotators))
    try:
        rating = run_round(arena.cells(), SETTINGS[method])
    except (NoFiniteMaximumError, NoCommonRankingError, NotConvergedError):
        return None
    ability = np.where(np.isfinite(rating.annotators.ability), rating.annotators.ability, 1.0)
    return Rated(rating.models.score, rating.models.component, ability)


def bootstrap_elo(arena: Arena, *, resamples: int, seed: int) -> tuple[Floats, Floats]:
    """Return the median and the standard deviation of each model's Elo score over resamples of the votes.

    The votes are drawn with replacement and played in the drawn order, K = 4 from 1000, as in am-ELO's published code.
    A model counts only in the resamples in which it has a vote; NaN where it has none.
    """
    generator = np.random.default_rng(seed)
    a, b = arena.model_a.astype(np.int32), arena.model_b.astype(np.int32)
    scores = np.full((resamples, arena.n_models), INITIAL)
    for row in range(resamples):
        drawn = generator.integers(0, arena.n_votes, arena.n_votes, dtype=np.int32)
        play(a, b, arena.outcome, drawn[None, :], K, scores[row : row + 1])
        absent = np.ones(arena.n_models, dtype=bool)
        absent[a[drawn]] = absent[b[drawn]] = False
        scores[row, absent] = np.nan
    known = ~np.isnan(scores).all(axis=0)
    median, sd = np.full(arena.n_models, np.nan), np.full(arena.n_models, np.nan)
    median[known], sd[known] = np.nanmedian(scores[:, known], axis=0), np.nanstd(scores[:, known], axis=0)
    return median, sd
