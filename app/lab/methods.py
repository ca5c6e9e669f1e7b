from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from app.lab.arenas import Arena
from app.rating.data.arrays import Floats, Indices
from app.rating.errors import NoCommonRankingError, NoFiniteMaximumError, NotConvergedError
from app.rating.loop.round import run_round
from app.rating.settings import LoopSettings
from app.rating.solver.elo import NATURAL_PER_ELO, fit_elo

Method = Literal["elo", "m-elo", "am-elo plain", "am-elo robust"]
METHODS: tuple[Method, ...] = get_args(Method)
ELO_SHUFFLES = 1_000  # as in the am-ELO paper

SETTINGS = {
    "m-elo": LoopSettings(method="m-elo", min_votes=0, interval="none"),
    "am-elo plain": LoopSettings(min_votes=0, flag_rule="threshold", prior_sd=None, ability_cap=None, interval="none"),
    "am-elo robust": LoopSettings(min_votes=0, flag_rule="threshold", interval="none"),
}


@dataclass(frozen=True)
class Rated:
    """The result of a method on an arena's votes.

    Attributes
    ----------
    score : Elo points, NaN for a model that is not identified, shape (n_models,)
    component : connected component of each model, shape (n_models,)
    ability : published units (1 is typical), 1 where there is no estimate, shape (n_annotators,)
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
    seed, shuffles : of Elo, which is averaged over random orders
    """
    if method == "elo":
        result = fit_elo(
            arena.model_a, arena.model_b, arena.outcome, n_models=arena.n_models, shuffles=shuffles, seed=seed
        )
        return Rated(result.score, np.zeros(arena.n_models, dtype=np.int64), np.ones(arena.n_annotators))
    try:
        rating = run_round(arena.cells(), SETTINGS[method]).rating
    except (NoFiniteMaximumError, NoCommonRankingError, NotConvergedError):
        return None
    ability = np.where(np.isfinite(rating.annotators.ability), rating.annotators.ability, 1.0)
    return Rated(rating.models.score, rating.models.component, ability)
