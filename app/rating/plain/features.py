"""m-ELO of votes whose answers differ in features, with the errors of clusters of votes that hang together."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.special import expit, log_expit

from app.rating.arrays import Floats, Indices, Ints, sum_by
from app.rating.errors import NotConvergedError
from app.rating.model.crowd import laplacian
from app.rating.plain.m_elo import (
    CONVERGED,
    MOST_ITERATIONS,
    ROUNDING,
    SUFFICIENT,
    shift_projector,
    typical,
)
from app.rating.threads import one_blas_thread
from app.rating.votes.cells import Cells
from app.rating.votes.features import features_of
from app.rating.votes.graph import find_components

if TYPE_CHECKING:
    from scipy.sparse import csr_array

DECIDED = 1e-6  # mean p(1 − p) of votes below which a feature leaves nothing to chance


@dataclass(frozen=True)
class PlainFeatureFit:
    """Scores and the worth of features, in natural units, with their sampling covariance.

    Attributes
    ----------
    R : shape (n_models,), the mean of each component 0
    gamma : shape (n_features,)
    covariance : of both, shape (n_models + n_features, n_models + n_features)
    freedom : degrees of freedom of each variance: the clusters that inform about it, less 1
    clusters : clusters that inform about each model, shape (n_models,)
    log_likelihood : ℓ at the maximum
    iterations : of Newton's method
    """

    R: Floats
    gamma: Floats
    covariance: Floats
    freedom: Floats
    clusters: Indices
    log_likelihood: float
    iterations: int


@one_blas_thread()
def fit_plain_features(cells: Cells, R: Floats) -> PlainFeatureFit:
    """Maximise ℓ(R, γ) = Σ_votes n [W log σ(x) + (1 − W) log σ(−x)], x = R_a − R_b + zᵀγ.

    Parameters
    ----------
    cells : a row for each vote, with features (perhaps none); the annotators are the clusters
    R : start, shape (n_models,)

    Returns
    -------
    PlainFeatureFit
        The covariance is the sandwich H⁻¹ M H⁻¹ c/(c − 1), M the sum over the c clusters of their gradients' squares.

    Raises
    ------
    NotConvergedError
        The votes say nothing of a direction, or the maximum lies at infinity.

    Notes
    -----
    O(n_votes) and O((n_models + n_features)³) per iteration, about 5 of them. It needs no kernel.

    References
    ----------
    Liang and Zeger (1986); Chiang et al., Chatbot Arena, 2024, §5, on style as covariates.
    """
    z, (a, b), size = features_of(cells), (cells.model_a, cells.model_b), cells.n_models
    shifts = shift_projector(find_components(cells).label)
    beta = np.concatenate([R - shifts @ R, np.zeros(z.shape[1])])

    def value(at: Floats) -> float:
        x = at[a] - at[b] + z @ at[size:]
        return -float(cells.s @ log_expit(x) + (cells.n - cells.s) @ log_expit(-x))

    for iteration in range(1, MOST_ITERATIONS + 1):
        x = beta[a] - beta[b] + z @ beta[size:]
        p = expit(x)
        gradient = _by_model(a, b, cells.n * p - cells.s, z, size)
        hessian = _hessian(a, b, cells.n * p * (1.0 - p), z, size)
        scale = typical(hessian[:size, :size])
        hessian[:size, :size] += scale * shifts
        try:
            factor = cho_factor(hessian)
        except LinAlgError:
            raise NotConvergedError(
                f"the Hessian is singular at iteration {iteration}", beta[:size], np.ones(1)
            ) from None
        step = -cho_solve(factor, gradient)
        decrement, length = -float(step @ gradient), 1.0
        enough = value(beta) * (1.0 + ROUNDING)
        while decrement > CONVERGED and value(beta + length * step) > enough - SUFFICIENT * length * decrement:
            length /= 2.0
        beta = beta + length * step
        beta[:size] -= shifts @ beta[:size]
        if decrement <= CONVERGED:
            if (np.diag(hessian)[size:] < DECIDED * (cells.n @ z**2)).any():
                raise NotConvergedError(
                    "a feature decides every vote: the maximum is at infinity", beta[:size], np.ones(1)
                )
            inverse = cho_solve(factor, np.eye(len(beta)))
            inverse[:size, :size] -= shifts / scale
            return _with_errors(cells, beta, inverse, -value(beta), iteration)
    raise NotConvergedError(f"not converged after {MOST_ITERATIONS} iterations", beta[:size], np.ones(1))


def _by_model(a: Ints, b: Ints, amount: Floats, z: Floats, size: int) -> Floats:
    return np.concatenate([sum_by(a, amount, size) - sum_by(b, amount, size), z.T @ amount])


def _hessian(a: Ints, b: Ints, variance: Floats, z: Floats, size: int) -> Floats:
    found = np.empty((size + z.shape[1],) * 2)
    pair = a.astype(np.int64) * size + b
    found[:size, :size] = laplacian(sum_by(pair, variance, size * size).reshape(size, size))
    for j, column in enumerate(z.T * variance):
        found[:, size + j] = found[size + j] = _by_model(a, b, column, z, size)
    return found


def _with_errors(cells: Cells, beta: Floats, inverse: Floats, value: float, iterations: int) -> PlainFeatureFit:
    z, (a, b), size = features_of(cells), (cells.model_a, cells.model_b), cells.n_models
    p = expit(beta[a] - beta[b] + z @ beta[size:])
    residual, variance = cells.s - cells.n * p, cells.n * p * (1.0 - p)
    gradients = _by_cluster(cells, residual, -residual, z * residual[:, None])
    shares = _by_cluster(cells, variance, variance, z**2 * variance[:, None])
    number = np.count_nonzero(np.diff(cells.starts))
    meat = (gradients.T @ gradients).toarray() * number / max(number - 1, 1)
    squares = np.asarray(shares.multiply(shares).sum(axis=0)).ravel()
    total = np.asarray(shares.sum(axis=0)).ravel()
    effective = total**2 / np.maximum(squares, np.finfo(float).tiny)
    clusters = np.bincount(shares.indices[shares.data > 0.0], minlength=len(total))[:size]
    return PlainFeatureFit(
        beta[:size],
        beta[size:],
        inverse @ meat @ inverse,
        np.maximum(effective - 1.0, 1.0),
        clusters,
        value,
        iterations,
    )


def _by_cluster(cells: Cells, left: Floats, right: Floats, of_features: Floats) -> "csr_array[Any, tuple[int, int]]":
    """Return the sums over each cluster's votes, by model and by feature: shape (n_clusters, n_models + n_features)."""
    from scipy.sparse import csr_array  # noqa: PLC0415  slow to import

    size, number = cells.n_models, of_features.shape[1]
    rows = np.tile(cells.annotator, 2 + number)
    columns = np.concatenate([cells.model_a, cells.model_b, size + np.repeat(np.arange(number), len(left))])
    values = np.concatenate([left, right, of_features.T.ravel()])
    return csr_array((values, (rows, columns)), shape=(cells.n_annotators, size + number))
