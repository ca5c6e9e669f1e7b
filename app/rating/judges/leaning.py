"""Judges' own terms: what each maximises at given scores, and the scores at which every judge has leans of its own."""

from typing import NamedTuple

import numpy as np
from scipy.sparse import block_diag, csr_array, diags_array
from scipy.sparse.linalg import spsolve
from scipy.special import expit

from app.rating.arrays import Floats, Indices, Mask, sum_by
from app.rating.errors import NotConvergedError
from app.rating.model.crowd import laplacian
from app.rating.plain.m_elo import shift_projector
from app.rating.votes.cells import Cells
from app.rating.votes.features import features_of

WIDE = 3.0  # standard deviation of the prior of a judge's own terms: of few judges it is open what a crowd would like
FEWEST = 2.0  # votes' worth of contrast in a feature, from which a lean can be known apart from scores
DEPENDENT = 1e-9  # share of a lean's information that rounding may leave
STEPS, NEAR = 50, 1e-12  # of Newton's method, and the squared length of its last step in standard errors
MOST_HALVINGS = 30


def maximise_own(h: Floats, n: Floats, s: Floats, mean: Floats) -> Floats:
    """Maximise Σ s x − n log(1 + eˣ) − |own − mean|²/(2·3²) over `own`, x = h·own.

    Parameters
    ----------
    h : shape (n_votes, n_own)
    n, s : votes, and how many of them were won, shape (n_votes,)
    mean : of the prior, where the search begins, shape (n_own,)

    Raises
    ------
    NotConvergedError
    """
    own = mean.copy()
    for _ in range(STEPS):
        p = expit(h @ own)
        gradient = h.T @ (s - n * p) - (own - mean) / WIDE**2
        step = np.linalg.solve(h.T @ (h * (n * p * (1.0 - p))[:, None]) + np.eye(len(own)) / WIDE**2, gradient)
        length, value = 1.0, _value(h @ own, n, s, own - mean)
        while _value(h @ (own + length * step), n, s, own + length * step - mean) < value - 1e-9 * abs(value):
            length /= 2.0
        own = own + length * step
        if float(gradient @ step) < NEAR:
            return own
    raise NotConvergedError("a judge's own terms do not converge", np.zeros(0), own)


def _value(x: Floats, n: Floats, s: Floats, away: Floats) -> float:
    return float(s @ x - n @ np.logaddexp(0.0, x) - away @ away / (2.0 * WIDE**2))


class Leaning(NamedTuple):
    """Scores, shape (n_models,), and every judge's leans, shape (n_annotators, n_features)."""

    R: Floats
    leans: Floats


def fit_leaning(cells: Cells, component: Indices, R: Floats) -> Leaning:
    """Maximise ℓ(R, b) − Σ_k |b_k|²/(2·3²), P(left wins) = σ(R_left − R_right + xᵀb_k), by Newton's method.

    The objective is jointly concave. The equations of a step are sparse: a judge's leans meet those of no other judge.

    Parameters
    ----------
    cells : with features x, 0 where an annotator has no lean
    component : of each model; the mean of each component's scores is 0
    R : where the search begins

    Raises
    ------
    NotConvergedError
    """
    x, size, n_leans = features_of(cells), len(R), cells.n_annotators * features_of(cells).shape[1]
    own = cells.annotator[:, None].astype(np.int64) * x.shape[1] + np.arange(x.shape[1])
    columns = np.column_stack([own, n_leans + cells.model_a, n_leans + cells.model_b])
    entries, one = np.column_stack([x, *np.outer([1.0, -1.0], np.ones(len(x)))]), np.arange(len(x))
    X = csr_array(
        (entries.ravel(), (np.repeat(one, columns.shape[1]), columns.ravel())), shape=(len(x), n_leans + size)
    )
    prior, at = np.repeat([WIDE**-2, 0.0], [n_leans, size]), np.append(np.zeros(n_leans), R)
    shifts = shift_projector(component)
    flat = csr_array(block_diag([csr_array((n_leans, n_leans)), shifts]))

    def value(at: Floats) -> float:
        odds = X @ at
        return float(cells.s @ odds - cells.n @ np.logaddexp(0.0, odds) - prior @ at**2 / 2.0)

    for _ in range(STEPS):
        p = expit(X @ at)
        gradient, w = X.T @ (cells.s - cells.n * p) - prior * at, cells.n * p * (1.0 - p)
        information = X.T @ (X * w[:, None]) + diags_array(prior)
        curvature = float(information.diagonal()[n_leans:].mean())
        step = spsolve((information + curvature * flat).tocsc(), gradient)
        lengths, least = 0.5 ** np.arange(MOST_HALVINGS), value(at) - 1e-12 * abs(value(at))
        at = next((there for there in (at + x * step for x in lengths) if value(there) >= least), at)
        if float(step @ gradient) < NEAR:
            R, leans = at[n_leans:], at[:n_leans].reshape(-1, x.shape[1])
            return Leaning(R - shifts @ R, leans)
    raise NotConvergedError(f"not converged after {STEPS} iterations", at[n_leans:], at[:n_leans])


def identified_leans(cells: Cells) -> Mask:
    """Return whose leans the votes tell from scores: not that of an annotator who saw each model on one side only.

    Of an annotator's votes, each with the same weight, the information on leans beside free scores of the models is
    D − B A⁺ Bᵀ. Where the side says which model it is, as where a baseline is always on the left, it is 0.

    Returns
    -------
    Shape (n_annotators, n_features).
    """
    x, size = features_of(cells), cells.n_models
    identified = np.zeros((cells.n_annotators, x.shape[1]), dtype=bool)
    for k in np.flatnonzero(np.diff(cells.starts)):
        mine = slice(int(cells.starts[k]), int(cells.starts[k + 1]))
        a, b, n = cells.model_a[mine].astype(np.int64), cells.model_b[mine], cells.n[mine]
        total = n @ x[mine] ** 2
        B = np.stack([sum_by(a, n * one, size) - sum_by(b, n * one, size) for one in x[mine].T])
        along = np.linalg.lstsq(laplacian(sum_by(a * size + b, n, size * size).reshape(size, size)), B.T)[0]
        identified[k] = total - np.einsum("ji,ij->j", B, along) > np.maximum(FEWEST, DEPENDENT * total)
    return identified
