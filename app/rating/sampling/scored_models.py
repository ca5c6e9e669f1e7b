"""What the policies read of a leaderboard."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from app.rating.data.arrays import Floats, Indices, Mask
from app.rating.data.compact import pool_annotators
from app.rating.inference.rating import Rating

MAIN = 0  # the component with the most votes


@dataclass(frozen=True)
class ScoredModels:
    """The models that battles may show, with what their votes say of them.

    Attributes
    ----------
    scored : models with a score that compares with the others', shape (n_models,)
    R : natural units of the typical annotator, shape (n_models,); not read where a model is not scored
    covariance : of R, shape (n_models, n_models); not read where a model is not scored
    pair_votes : counted votes on each pair, symmetric, shape (n_models, n_models)
    """

    scored: Mask
    R: Floats
    covariance: Floats
    pair_votes: Floats


def scored_models(rating: Rating, shown: Indices) -> ScoredModels:
    """Return the models at positions `shown` of a rating.

    A model outside the largest component is taken as not scored: its score does not compare with the others'. An
    rating without intervals gets the covariance that its votes would have if they were independent.
    """
    size, models = rating.cells.n_models, rating.small.models
    pairs = pool_annotators(rating.cells)
    votes, R, covariance = np.zeros((size, size)), np.zeros(size), np.zeros((size, size))
    votes[pairs.model_a, pairs.model_b] = pairs.n
    votes += votes.T
    scored = np.zeros(size, dtype=np.bool_)
    scored[models] = rating.components.label[models] == MAIN
    R[models] = rating.unit * rating.fit.scores
    here = np.ix_(models, models)
    if rating.covariance is not None:
        covariance[here] = rating.covariance.scores
    else:
        covariance[here] = information_covariance(R[models], votes[here])
    return ScoredModels(scored[shown], R[shown], covariance[np.ix_(shown, shown)], votes[np.ix_(shown, shown)])


def information_covariance(R: Floats, pair_votes: Floats) -> Floats:
    """Return the inverse information of Bradley-Terry scores: H⁻¹, H = Σ_ij n_ij p_ij(1 − p_ij)(e_i−e_j)(e_i−e_j)ᵀ.

    Parameters
    ----------
    R : natural units, shape (n_models,)
    pair_votes : votes n_ij on each pair, symmetric, shape (n_models, n_models)

    Returns
    -------
    float array, shape (n_models, n_models)
        The pseudo-inverse: the scores' mean is known to be 0.
    """
    p = expit(R[:, None] - R[None, :])
    information = -pair_votes * p * (1.0 - p)
    np.fill_diagonal(information, 0.0)
    np.fill_diagonal(information, -information.sum(axis=1))
    return np.asarray(np.linalg.pinv(information, hermitian=True), dtype=np.float64)
