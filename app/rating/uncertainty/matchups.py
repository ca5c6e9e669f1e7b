"""Predictions for pairs of models."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from app.rating.arrays import Floats, Indices
from app.rating.uncertainty.bounds import bound_differences
from app.rating.uncertainty.covariance import contrast_errors
from app.rating.uncertainty.freedom import critical_values
from app.rating.uncertainty.results import Estimate
from app.rating.units import ELO_PER_NATURAL


@dataclass(frozen=True)
class Matchups:
    """Predictions for pairs of models, arrays of shape (n_pairs,).

    Attributes
    ----------
    model_a, model_b : indices
    probability : that model_a beats model_b for the mean annotator, a tie being half a win for each; where one has no
        score, the nearest to ½ within the bounds; NaN where they are in different components
    lower, upper : ends of its interval, NaN without intervals; where one has no score, bounds on one side each
    """

    model_a: Indices
    model_b: Indices
    probability: Floats
    lower: Floats
    upper: Floats


def predict_matchups(rating: Estimate, model_a: Indices, model_b: Indices) -> Matchups:
    """Predict P(a beats b) = σ(R_a − R_b), R in units of the mean ability, with intervals made on the log-odds.

    Parameters
    ----------
    model_a, model_b : shape (n_pairs,) each

    Notes
    -----
    The interval uses the covariance of the two scores, so it is narrower than their own errors suggest. Of two models
    without a score, one that won all of n votes beats the other with at least (1 − confidence)^(1/n). O(n_pairs).
    """
    component = np.where(rating.identified, rating.components.label, -1)
    scored = (component[model_a] == component[model_b]) & (component[model_a] >= 0)
    row = np.zeros(len(component), dtype=np.int64)
    row[rating.small.models] = np.arange(len(rating.small.models))
    R = rating.natural_scores()
    difference, half = R[model_a] - R[model_b], np.full(len(model_a), np.nan)
    spread = rating.covariance
    if spread is not None:
        i, j = row[model_a], row[model_b]
        quantile = critical_values(spread.contrast_freedom(i, j), rating.settings.confidence)
        half = quantile * contrast_errors(spread.scores, i, j)
    difference[~scored] = np.nan
    found = Matchups(model_a, model_b, *(expit(difference + end) for end in (0.0, -half, half)))
    label = rating.components.label
    rest = np.flatnonzero(~scored & (label[model_a] == label[model_b]) & (label[model_a] >= 0))
    if len(rest):
        bounds = bound_differences(rating, 1.0 - rating.settings.confidence, model_a[rest], model_b[rest])
        found.lower[rest], found.upper[rest] = (expit(bound / ELO_PER_NATURAL) for bound in bounds)
        found.probability[rest] = np.clip(0.5, found.lower[rest], found.upper[rest])
    return found
