from typing import NamedTuple

import numpy as np

from app.rating.arrays import AnyInts, Floats, sum_by

PRIOR_SD = 1.0  # natural units, 174 Elo points: what few votes say is drawn together this much
_SMALL_STEP = 1e-9


class AnnotatorOrder(NamedTuple):
    """The order that one annotator's votes show.

    Attributes
    ----------
    R : natural units, with mean 0, shape (n_models,)
    se : standard errors of R, that of the mean left out, shape (n_models,)
    """

    R: Floats
    se: Floats


def order_own_votes(
    model_a: AnyInts, model_b: AnyInts, y: Floats, n_models: int, prior_sd: float = PRIOR_SD
) -> AnnotatorOrder:
    """Return the maximum of Σ y log p + (1 − y) log(1 − p) − Σ R²/(2 sd²), p = σ(R_a − R_b), and its curvature.

    Bradley-Terry with a prior, so that a few votes of one person have a maximum, also if a model won all its battles.

    Parameters
    ----------
    model_a, model_b : positions of the models, shape (n_votes,)
    y : 1 for model_a, 0 for model_b, 0.5 for a tie, shape (n_votes,)
    prior_sd : natural units, positive

    Returns
    -------
    AnnotatorOrder
        The intervals are Laplace's: R ± 1.96 se.

    Notes
    -----
    The objective is strictly concave. Newton's steps are cut to one natural unit: some ten of them, each
    O(n_models³).
    """
    size = n_models
    pair = np.asarray(model_a, dtype=np.int64) * size + model_b
    n, won = (sum_by(pair, weight, size * size).reshape(size, size) for weight in (np.ones(len(y)), y))
    n, won, prior = n + n.T, won + (n - won).T, np.eye(size) / prior_sd**2

    def differentiate(R: Floats) -> tuple[Floats, Floats]:
        p = 1.0 / (1.0 + np.exp(R - R[:, None]))
        weight = n * p * (1.0 - p)
        return (won - n * p).sum(axis=1) - prior @ R, np.diag(weight.sum(axis=1)) - weight + prior

    R, step = np.zeros(size), np.ones(size)
    while np.abs(step).max() > _SMALL_STEP:
        gradient, curvature = differentiate(R)
        step = np.asarray(np.linalg.solve(curvature, gradient), dtype=np.float64)
        step /= max(1.0, float(np.abs(step).max()))
        R = R + step
    centre = np.eye(size) - 1.0 / size
    covariance = centre @ np.linalg.inv(differentiate(R)[1]) @ centre
    return AnnotatorOrder(R - R.mean(), np.sqrt(np.diag(covariance)))
