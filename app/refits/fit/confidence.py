from collections.abc import Mapping

import numpy as np

from app.rating.arrays import Floats
from app.rating.sampling.pair_weights import PairWeights, pair_positions
from app.rating.uncertainty.rating import Rating
from app.rating.verdict.confidence import Confidence, measure_confidence
from app.refits.fit.interface import FitInput, Ids

MOST_PAIRS = 1_000_000
"""Of all leaderboards of a snapshot together, 4 bytes each: eight leaderboards of 500 models, or all of 300."""


def measure_leaderboards(
    fit_input: FitInput, ratings: Mapping[str, Rating], pair_weights: Mapping[str, PairWeights]
) -> dict[str, Confidence]:
    """Return how sure the order of each leaderboard is.

    Parameters
    ----------
    ratings : by tag, "" for the main leaderboard; in this order, as many as fit into `MOST_PAIRS`
    pair_weights : how likely each pair is to be a battle, by tag: forecasts assume that votes come so
    """
    measured: dict[str, Confidence] = {}
    pairs = 0
    for tag, rating in ratings.items():
        weights = pair_weights.get(tag)
        design = None if weights is None else spread_weights(weights, fit_input.model_ids)
        found = measure_confidence(rating, fit_input.decision_rule, design)
        if found is not None:
            pairs += len(found.joint.score) * (len(found.joint.score) - 1) // 2
            if pairs > MOST_PAIRS:
                break
            measured[tag] = found
    return measured


def spread_weights(weights: PairWeights, model_ids: Ids) -> Floats:
    """Return the weights as a symmetric matrix over all models, 0 for those without, shape (n_models, n_models)."""
    place = np.searchsorted(model_ids, weights.models)
    first, second = pair_positions(len(place))
    design = np.zeros((len(model_ids), len(model_ids)))
    design[place[first], place[second]] = weights.weight
    symmetric: Floats = design + design.T
    return symmetric
