from collections.abc import Mapping

import numpy as np

from app.rating.sampling.pair_weights import PairWeights, weigh_pairs
from app.rating.sampling.scored_models import scored_models
from app.rating.uncertainty.rating import Rating
from app.refits.fit.interface import FitInput

MOST_PAIRS = 1_000_000
"""Of all tables of a snapshot together, 2 bytes each: eight tables of 500 models, or one of 1,400."""


def tabulate_pairs(fit_input: FitInput, ratings: Mapping[str, Rating]) -> dict[str, PairWeights]:
    """Return a table of pair weights for each rating, of all models on record that battles may show.

    Parameters
    ----------
    ratings : by tag, "" for the main leaderboard; in this order, as many as fit into `MOST_PAIRS`
    """
    shown = np.flatnonzero(~np.isin(fit_input.model_ids, fit_input.unoffered))
    pairs = max(len(shown) * (len(shown) - 1) // 2, 1)
    kept = list(ratings.items())[: MOST_PAIRS // pairs]
    return {
        tag: weigh_pairs(scored_models(rating, shown), fit_input.model_ids[shown], fit_input.sampling)
        for tag, rating in kept
    }
