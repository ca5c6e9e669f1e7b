"""Models whose intervals are wider than their neighbours': they get battles of their own until they are as narrow."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from app.rating.data.arrays import Floats, Indices
from app.rating.sampling.scored_models import ScoredModels

NEIGHBOURS = 6  # by score, on both sides together
EACH, TOGETHER = 0.1, 0.25  # share of the battles for one new model without votes, and for all of them


@dataclass(frozen=True)
class Newcomers:
    """The models that are boosted, and what the policies see of them meanwhile.

    Attributes
    ----------
    missing : share of the votes that a model still lacks, 0 to 1, shape (n_models,)
    share : of the battles that are kept for these models
    weights : of the pairs of these battles, symmetric, shape (n_models, n_models)
    R, covariance : for the policies. A model that is boosted has no wider interval there than is usual, so that it does
        not take all other battles too; a model without a score is average
    """

    missing: Floats
    share: float
    weights: Floats
    R: Floats
    covariance: Floats


def find_newcomers(models: ScoredModels) -> Newcomers:
    """Find the models to boost.

    Model i with n_i votes and the standard error s_i lacks the share e_i = min(1 − n_i/ñ_i, 1 − (s̃_i/s_i)²) of its
    votes, 0 where that is negative: ñ_i is the median of its six neighbours' votes by score, s̃_i the median of their
    standard errors or of all models', whichever is larger. The second term is the share that is missing because
    variances fall as 1/n. The first leaves out models that have votes enough, and wide intervals because they are far
    from the others. A model without a score lacks all.

    The share min(0.1 Σe_i, 0.25) of the battles shows a pair in proportion to (e_i + e_j) p_ij(1 − p_ij). So the boost
    ends when a model's interval is as narrow as its neighbours'.

    Raises
    ------
    ValueError
        No model is scored.
    """
    scored = models.scored
    if not scored.any():
        raise ValueError("no model has a score: all pairs are alike")
    votes, error = models.pair_votes.sum(axis=1), np.sqrt(np.maximum(np.diag(models.covariance), 0.0))
    typical = float(np.median(error[scored]))
    missing, narrow = np.ones(len(scored)), np.full(len(scored), typical)
    near = _neighbours(models.R[scored])
    narrow[scored] = np.maximum(np.median(error[scored][near], axis=1), typical)
    with np.errstate(divide="ignore", invalid="ignore"):
        lacking = np.fmin(
            1.0 - votes[scored] / np.median(votes[scored][near], axis=1), 1.0 - (narrow / error)[scored] ** 2
        )
    missing[scored] = np.maximum(np.nan_to_num(lacking), 0.0)
    shrunk = np.where(scored, np.sqrt(1.0 - missing), 0.0)  # 1 for a model that lacks nothing
    R = np.where(scored, models.R, models.R[scored].mean())
    covariance = np.where(scored[:, None] & scored, models.covariance, 0.0) * np.outer(shrunk, shrunk)
    covariance[~scored, ~scored] = narrow[~scored] ** 2
    p = expit(R[:, None] - R[None, :])
    weights = (missing[:, None] + missing[None, :]) * p * (1.0 - p)
    np.fill_diagonal(weights, 0.0)
    return Newcomers(missing, min(EACH * float(missing.sum()), TOGETHER), weights, R, covariance)


def _neighbours(R: Floats) -> Indices:
    """Return the positions of each model's neighbours by score, shape (n_models, 6); fewer where there are fewer."""
    size = len(R)
    if size == 1:
        return np.zeros((1, 1), dtype=np.int64)
    order, many = np.argsort(R, kind="stable"), min(NEIGHBOURS, size - 1)
    place = np.arange(size)
    first = np.clip(place - many // 2, 0, size - 1 - many)
    around = first[:, None] + np.arange(many)
    around += around >= place[:, None]  # a model is no neighbour of itself
    near = np.empty((size, many), dtype=np.int64)
    near[order] = order[around]
    return near
