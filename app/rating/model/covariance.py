"""Sandwich errors of the scores, clustered by annotator."""

from dataclasses import dataclass

import numpy as np

from app.rating.arrays import Floats
from app.rating.model.scores import MarginalFit

TINY, MOST_FREEDOM = 1e-12, 1e9


@dataclass(frozen=True)
class ScoreCovariance:
    """Sampling covariance of the scores.

    Attributes
    ----------
    scores : natural units, each component shifted by `centre`, shape (n_models, n_models)
    freedom : degrees of freedom of each model's variance, shape (n_models,)
    centre : weights of the models in their component's centre, each component's sum is 1, shape (n_models,)
    """

    scores: Floats
    freedom: Floats
    centre: Floats


def find_covariance(fit: MarginalFit) -> ScoreCovariance:
    """Return J⁻¹ (Σ_k u_k u_k′/(1 − h_k) + votes as independent) J⁻ᵀ, shifted to a centre.

    The variance between annotators is known to their effective number less 1, that of votes taken as independent well.

    The centre of a component is the mean of its scores weighted by the information on each, so that a model with few
    votes moves neither the centre nor the errors of the others.
    """
    shift, centre = shift_to_centre(fit)
    bread = shift @ np.linalg.inv(fit.equations.jacobian)
    between = bread @ fit.clusters.meat @ bread.T
    scores = between + bread @ fit.clusters.by_vote @ bread.T
    known = np.maximum(np.diag(scores) / np.maximum(np.diag(between), TINY), 1.0)
    freedom = np.maximum(1.0 / np.maximum(fit.clusters.shares, TINY) - 1.0, 1.0) * known**2
    return ScoreCovariance(scores, np.minimum(freedom, MOST_FREEDOM), centre)


def shift_to_centre(fit: MarginalFit) -> tuple[Floats, Floats]:
    """Return the matrix that shifts each component to its centre, and the weights of the models in it."""
    together = (fit.label[:, None] == fit.label) & (fit.label >= 0)
    information = np.diag(fit.equations.information)
    centre = np.where(fit.label < 0, 0.0, information / np.maximum(together @ information, TINY))
    return np.eye(len(fit.R)) - together * centre, centre
