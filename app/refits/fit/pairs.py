import numpy as np

from app.rating.data.compact import pool_annotators
from app.rating.inference.matchups import predict_matchups
from app.rating.loop.results import LoopResult
from app.rating.settings import LoopSettings
from app.refits.fit.task import PairTable

MOST_MODELS = 200
"""Up to so many models every pair with a score is predicted, met or not; beyond it those that were."""


def tabulate_pairs(turn: LoopResult, settings: LoopSettings) -> PairTable:
    """Count the votes that the turn kept by pair of models, and predict every pair's win rate."""
    estimate = turn.estimate
    pooled = pool_annotators(estimate.cells)
    size = estimate.cells.n_models
    met = pooled.model_a.astype(np.int64) * size + pooled.model_b
    pair = met
    if len(estimate.small.models) <= MOST_MODELS:
        predicted = predict_matchups(estimate, settings)
        pair = np.union1d(met, predicted.model_a * size + predicted.model_b)
    found = predict_matchups(estimate, settings, (pair // size, pair % size))
    n, s, ties = np.zeros((3, len(pair)))
    place = np.searchsorted(pair, met)
    n[place], s[place], ties[place] = pooled.n, pooled.s, pooled.ties
    return PairTable(
        found.model_a, found.model_b, s - ties / 2.0, ties, n - s - ties / 2.0,
        found.probability, found.lower, found.upper,
    )  # fmt: skip
