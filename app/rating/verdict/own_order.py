from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from app.rating.arrays import AnyInts, Floats

PRIOR_SD = 1.0  # natural units, 174 Elo points: what few votes say is drawn together this much
_SMALL_STEP = 1e-9


@dataclass(frozen=True)
class OwnOrder:
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
) -> OwnOrder:
    """Return the maximum of Σ y log p + (1 − y) log(1 − p) − Σ R²/(2 sd²), p = σ(R_a − R_b), and its curvature.

    Bradley-Terry with a prior, so that a few votes of one person have a maximum, also if a model won all its battles.

    Parameters
    ----------
    model_a, model_b : positions of the models, shape (n_votes,)
    y : 1 for model_a, 0 for model_b, 0.5 for a tie, shape (n_votes,)
    prior_sd : natural units, positive

    Returns
    -------
    OwnOrder
        The intervals are Laplace's: R ± 1.96 se.

    Notes
    -----
    The objective is strictly concave. Newton's steps are cut to one natural unit: some ten of them, each
    O(n_votes + n_models³).
    """
    R: Floats = np.zeros(n_models)
    step: Floats = np.ones(n_models)
    while np.abs(step).max() > _SMALL_STEP:
        gradient, curvature = _derivatives(model_a, model_b, y, R, prior_sd)
        step = np.asarray(np.linalg.solve(curvature, gradient), dtype=np.float64)
        step /= max(1.0, float(np.abs(step).max()))
        R = R + step
    centre = np.eye(n_models) - 1.0 / n_models
    covariance = centre @ np.linalg.inv(_derivatives(model_a, model_b, y, R, prior_sd)[1]) @ centre
    return OwnOrder(R - R.mean(), np.sqrt(np.diag(covariance)))


def _derivatives(model_a: AnyInts, model_b: AnyInts, y: Floats, R: Floats, prior_sd: float) -> tuple[Floats, Floats]:
    """Return the gradient and the negative second derivatives."""
    p = expit(R[model_a] - R[model_b])
    gradient, curvature = -R / prior_sd**2, np.eye(len(R)) / prior_sd**2
    np.add.at(gradient, model_a, y - p)
    np.add.at(gradient, model_b, p - y)
    weight = p * (1.0 - p)
    for one, other in ((model_a, model_b), (model_b, model_a)):
        np.add.at(curvature, (one, one), weight)
        np.add.at(curvature, (one, other), -weight)
    return gradient, curvature
