"""Differences of two scores: their errors, win probabilities and simultaneous ranks."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, ndtri

from app.rating.data.arrays import Floats, Indices

DRAWS = 20_000


@dataclass(frozen=True)
class WinProbabilities:
    """P(one model beats another) for the typical annotator, with its interval; arrays of one shape."""

    probability: Floats
    lower: Floats
    upper: Floats


def win_probabilities(difference: Floats, half: Floats) -> WinProbabilities:
    """Return the probability that one model beats another, σ(R_i − R_j), with intervals made on the log-odds.

    Parameters
    ----------
    difference : R_i − R_j in natural units of the typical annotator, any shape
    half : half the width of its interval, same shape

    Returns
    -------
    WinProbabilities
        A tie counts as half a win for each.
    """
    return WinProbabilities(expit(difference), expit(difference - half), expit(difference + half))


def contrast_errors(covariance: Floats, i: Indices, j: Indices) -> Floats:
    """Return the standard errors of R_i − R_j, in the broadcast shape of i and j."""
    variance = np.diag(covariance)
    errors: Floats = np.sqrt(np.maximum(variance[i] + variance[j] - 2.0 * covariance[i, j], 0.0))
    return errors


def simultaneous_ranks(
    R: Floats, covariance: Floats, *, confidence: float = 0.95, seed: int = 0
) -> tuple[Indices, Indices]:
    """Return rank sets that contain the true ranks of all models together with the given probability.

    A model's best rank is 1 + the number of models certainly above it, its worst rank n − the number certainly below
    it. Certainty is by simultaneous intervals of all differences: |R̂_i − R̂_j − (R_i − R_j)| ≤ c·se_ij for all pairs
    with probability `confidence`, where c comes from 20,000 normal draws with the given covariance.

    Parameters
    ----------
    R, covariance : shapes (n_models,) and (n_models, n_models)

    Returns
    -------
    best, worst : int arrays, shape (n_models,)

    References
    ----------
    Mogstad, Romano, Shaikh and Wilhelm, Inference for Ranks, Review of Economic Studies 2024, §3.
    """
    n = len(R)
    every = np.arange(n)
    errors = contrast_errors(covariance, every[:, None], every)
    above = np.triu_indices(n, 1)
    known = errors[above] > 0
    i, j, se = above[0][known], above[1][known], errors[above][known]
    if len(se) == 0:
        return np.ones(n, dtype=np.int64), np.full(n, n, dtype=np.int64)
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    generator = np.random.default_rng(seed)
    largest = np.empty(DRAWS)
    block = max(1, 4_000_000 // len(se))
    for first in range(0, DRAWS, block):
        draw = generator.standard_normal((min(block, DRAWS - first), n)) @ root.T
        largest[first : first + len(draw)] = np.max(np.abs(draw[:, i] - draw[:, j]) / se, axis=1)
    critical = max(float(np.quantile(largest, confidence)), float(ndtri(0.5 + confidence / 2.0)))
    certain = (R[:, None] - R[None, :]) > critical * errors  # row above column
    certain &= errors > 0
    return (1 + certain.sum(axis=0)).astype(np.int64), (n - certain.sum(axis=1)).astype(np.int64)
