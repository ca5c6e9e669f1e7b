"""The centre of published scores: a mean that models with few votes cannot move."""

import numpy as np
from scipy.special import expit

from app.rating.arrays import Floats, Indices, sum_by
from app.rating.uncertainty.covariance import Covariance
from app.rating.uncertainty.freedom import critical_values
from app.rating.uncertainty.results import Estimate
from app.rating.units import ELO_PER_NATURAL

FULL = 0.1  # share of the usual information from which a model has its full weight


def weigh_models(rating: Estimate) -> Floats:
    """Return the weight of each model in the centre of its component, the sum of a component is 1, shape (n_models,).

    Models with a tenth of the usual information or more weigh the same, so that the centre does not follow the votes as
    they turn to other models; with less, a model weighs as its square. So a newcomer with one vote moves no other
    model's score and interval, and one with a tenth widens those of 20 others by 1 %. Usual is the mean over votes,
    Σ I²/Σ I, with I = Σ n p (1 − p) what the votes on a model would say if every annotator had the mean ability: many
    newcomers do not move it. 0 without a score; where no vote is between two scores, as in a part of the votes, all
    weigh the same.
    """
    pairs, size = rating.pairs, rating.cells.n_models
    R = np.where(rating.identified, rating.natural_scores(), np.nan)
    p = expit(R[pairs.model_a] - R[pairs.model_b])
    known = np.nan_to_num(pairs.n * p * (1.0 - p))
    information = sum_by(pairs.model_a, known, size) + sum_by(pairs.model_b, known, size)
    weight = np.zeros(size)
    for component in range(rating.components.number):
        here = np.flatnonzero(rating.identified & (rating.components.label == component))
        most = information[here].max(initial=0.0)
        mine = information[here] / most if most > 0.0 else np.ones(len(here))
        if len(here):
            weight[here] = np.minimum(mine / (FULL * (mine @ mine) / mine.sum()), 1.0) ** 2
            weight[here] /= weight[here].sum()
    return weight


def centred_scores(rating: Estimate) -> Floats:
    """Return the scores less the centre of their component, Elo points, NaN for models without one, (n_models,)."""
    R, label = np.where(rating.identified, rating.natural_scores(), np.nan), rating.components.label
    inside = label >= 0
    centre = sum_by(label[inside], (weigh_models(rating) * np.nan_to_num(R))[inside], rating.components.number)
    R[inside] -= centre[label[inside]]
    points: Floats = ELO_PER_NATURAL * R
    return points


def centred_covariance(rating: Estimate, spread: Covariance) -> Floats:
    """Return the covariance of `centred_scores`, natural units, 0 for models without a score, (n_models, n_models)."""
    models, found = rating.small.models, np.zeros((rating.cells.n_models,) * 2)
    label, weight = rating.components.label[models], weigh_models(rating)[models]
    found[np.ix_(models, models)] = recentre(spread.scores, label, weight)
    return found


def centred_errors(rating: Estimate, confidence: float) -> tuple[Floats, Floats]:
    """Return the standard errors of `centred_scores` and half the widths of their intervals, Elo points, (n_models,).

    NaN for models without a score, and without intervals.
    """
    se, half = np.full((2, rating.cells.n_models), np.nan)
    if rating.covariance is not None:
        models = np.flatnonzero(rating.identified[rating.small.models])
        scored, variance = rating.small.models[models], np.diag(centred_covariance(rating, rating.covariance))
        se[scored] = ELO_PER_NATURAL * np.sqrt(np.maximum(variance[scored], 0.0))
        half[scored] = critical_values(rating.covariance.freedom[models], confidence) * se[scored]
    return se, half


def recentre(covariance: Floats, label: Indices, weight: Floats) -> Floats:
    """Return the covariance of scores less their component's mean with these weights, shape (n, n).

    Parameters
    ----------
    covariance : of scores with whatever centre, shape (n, n)
    label, weight : component of each, and its weight in the component's centre, shape (n,)
    """
    of = weight * (label == np.unique(label)[:, None])  # of each component, its mean
    place = np.unique(label, return_inverse=True)[1]
    moved: Floats = covariance - (of @ covariance)[place]
    moved -= (moved @ of.T)[:, place]
    return moved
