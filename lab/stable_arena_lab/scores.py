"""Every method's scores, their loss, and the win rates that they predict: the am-ELO paper's Figures 3 and 4."""

from dataclasses import dataclass

import numpy as np

from app.rating.arrays import Floats
from app.rating.plain.elo import fit_elo
from stable_arena_lab.agreement import log_loss
from stable_arena_lab.arenas import Arena
from stable_arena_lab.methods import ELO_SHUFFLES, EVERY_METHOD, Method, Rated, bootstrap_elo, rate


@dataclass(frozen=True)
class Score:
    """A model's score by one method, Elo points; None where the method gives none.

    Attributes
    ----------
    sd : standard deviation between single orders (elo) or resamples (elo bootstrap); 0 for the methods that give one
        answer
    """

    model: str
    method: Method
    score: float | None
    sd: float | None


@dataclass(frozen=True)
class Loss:
    """−ℓ per vote of a method on the votes that it was fitted to; None where it has no result."""

    method: Method
    loss: float | None


@dataclass(frozen=True)
class Pair:
    """How often the first of two models wins, a tie being half a win: as voted and as two methods predict.

    Attributes
    ----------
    m_elo, am_elo : mean prediction over the pair's votes, by penalised am-ELO for each vote's annotator
    """

    model_a: str
    model_b: str
    votes: int
    voted: float
    m_elo: float | None
    am_elo: float | None


def compare_scores(
    arena: Arena, *, seed: int = 0, shuffles: int = ELO_SHUFFLES
) -> tuple[list[Score], list[Loss], list[Pair]]:
    """Rate an arena by every method.

    Parameters
    ----------
    shuffles : orders, and resamples, of Elo
    """
    rated = {method: rate(arena, method, seed=seed, shuffles=shuffles) for method in EVERY_METHOD}
    none = np.zeros(arena.n_models)
    spread: dict[Method, Floats] = {
        "elo": fit_elo(
            arena.model_a, arena.model_b, arena.outcome, n_models=arena.n_models, shuffles=shuffles, seed=seed
        ).sd,
        "elo bootstrap": bootstrap_elo(arena, resamples=shuffles, seed=seed)[1],
    }
    scores = [
        Score(arena.name_of(model), method, *_known(result, spread.get(method, none), model))
        for method, result in rated.items()
        for model in range(arena.n_models)
    ]
    losses = [
        Loss(method, None if result is None else log_loss(result.predict(arena), arena.outcome))
        for method, result in rated.items()
    ]
    return scores, losses, _pairs(arena, rated["m-elo"], rated["am-elo robust"])


def _known(result: Rated | None, sd: Floats, model: int) -> tuple[float | None, float | None]:
    if result is None or not np.isfinite(result.score[model]):
        return None, None
    return float(result.score[model]), float(sd[model])


def _pairs(arena: Arena, m_elo: Rated | None, am_elo: Rated | None) -> list[Pair]:
    """Return the pairs with votes, the models of each in the order of their indices."""
    low, high = np.minimum(arena.model_a, arena.model_b), np.maximum(arena.model_a, arena.model_b)
    first = arena.model_a < arena.model_b
    pair, row = np.unique(low.astype(np.int64) * arena.n_models + high, return_inverse=True)
    votes = np.bincount(row)

    def mean(probability: Floats) -> Floats:
        """Average over the votes of each pair, from the side of the model with the lower index."""
        return np.bincount(row, np.where(first, probability, 1.0 - probability)) / votes

    voted = mean(arena.outcome)
    predicted = [None if rated is None else mean(rated.predict(arena)) for rated in (m_elo, am_elo)]
    return [
        Pair(
            arena.name_of(int(number) // arena.n_models),
            arena.name_of(int(number) % arena.n_models),
            int(votes[i]),
            float(voted[i]),
            *(None if each is None else float(each[i]) for each in predicted),
        )
        for i, number in enumerate(pair)
    ]
