"""Models whose intervals are wider than their neighbours': they get battles of their own until they are as narrow."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from app.rating.data.arrays import Floats
from app.rating.sampling.scored_models import ScoredModels

NEIGHBOURS = 6  # by score, on both sides together
AS_NARROW = 1.25  # times the neighbours' standard error is as narrow as theirs
EACH, TOGETHER = 0.1, 0.25  # share of the battles for one new model without votes, and for all of them


@dataclass(frozen=True)
class Newcomers:
    """The models that are boosted, and what the policies see of them meanwhile.

    Attributes
    ----------
    missing : share of the votes that a model still lacks, 0 to 1, shape (n_models,)
    share : of the battles that are kept for these models
    weights : of the pairs of these battles, symmetric, shape (n_models, n_models)
    R, covariance : for the policies. A model that is boosted has at most `AS_NARROW` times its neighbours' standard
        error there, so that it does not take all other battles too; a model without a score is average
    """

    missing: Floats
    share: float
    weights: Floats
    R: Floats
    covariance: Floats


def find_newcomers(models: ScoredModels) -> Newcomers:
    """Find the models to boost.

    With s_i the standard error of a score and s̃_i the median of those of its six neighbours by score, model i lacks
    the share e_i = 1 − (1.25 s̃_i/s_i)² of its votes (0 if that is negative), because variances fall as 1/n; a model
    without a score lacks all. The share min(0.1 Σe_i, 0.25) of the battles shows a pair in proportion to
    (e_i + e_j) p_ij(1 − p_ij): the boost ends by itself.

    Raises
    ------
    ValueError
        No model is scored.
    """
    if not models.scored.any():
        raise ValueError("no model has a score: all pairs are alike")
    scored = models.scored
    usual = np.full(len(scored), np.nan)
    error = np.sqrt(np.maximum(np.diag(models.covariance), 0.0))
    usual[scored] = AS_NARROW * _errors_nearby(models.R[scored], error[scored])
    usual[~scored] = np.median(error[scored])
    R = np.where(scored, models.R, models.R[scored].mean())
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(scored & (error > usual), usual / error, 1.0)
    missing = np.where(scored, 1.0 - ratio**2, 1.0)
    covariance = np.where(np.outer(scored, scored), models.covariance, 0.0) * np.outer(ratio, ratio)
    covariance[~scored, ~scored] = usual[~scored] ** 2
    p = expit(R[:, None] - R[None, :])
    weights = (missing[:, None] + missing[None, :]) * p * (1.0 - p)
    np.fill_diagonal(weights, 0.0)
    return Newcomers(missing, min(EACH * float(missing.sum()), TOGETHER), weights, R, covariance)


def _errors_nearby(R: Floats, error: Floats) -> Floats:
    """Return the median standard error of each model's neighbours by score, shape (n_models,)."""
    if len(R) == 1:
        return error
    order = np.argsort(R, kind="stable")
    nearby = np.empty(len(R))
    for place, model in enumerate(order):
        first = min(max(place - NEIGHBOURS // 2, 0), max(len(R) - NEIGHBOURS - 1, 0))
        around = np.delete(order[first : first + NEIGHBOURS + 1], place - first)
        nearby[model] = np.median(error[around])
    return nearby
