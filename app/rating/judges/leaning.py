"""Judges' own terms: what each maximises at given scores, and the scores at which every judge has leans of its own."""

from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError
from scipy.special import expit

from app.rating.arrays import Floats, Indices, Mask, sum_by
from app.rating.errors import NotConvergedError
from app.rating.model.crowd import laplacian
from app.rating.plain.m_elo import shift_projector, typical
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

    The leans are eliminated from each step. The objective is jointly concave.

    Parameters
    ----------
    cells : with features x, 0 where an annotator has no lean
    component : of each model; the mean of each component's scores is 0
    R : where the search begins

    Raises
    ------
    NotConvergedError
    """
    x, size, shifts = features_of(cells), len(R), shift_projector(component)
    leans, a, b = np.zeros((cells.n_annotators, x.shape[1])), cells.model_a.astype(np.int64), cells.model_b

    def logits(R: Floats, leans: Floats) -> Floats:
        odds: Floats = R[a] - R[b] + np.einsum("ij,ij->i", x, leans[cells.annotator])
        return odds

    for iteration in range(STEPS):
        odds = logits(R, leans)
        p = expit(odds)
        rest, w = cells.s - cells.n * p, cells.n * p * (1.0 - p)
        gradient = sum_by(a, rest, size) - sum_by(b, rest, size)
        S, parts = (
            laplacian(sum_by(a * size + b, w, size * size).reshape(size, size)),
            list[tuple[int, Floats, Floats, Floats]](),
        )
        for k in np.flatnonzero(np.diff(cells.starts)).tolist():
            mine = slice(int(cells.starts[k]), int(cells.starts[k + 1]))
            z, weight = x[mine], w[mine][:, None] * x[mine]
            H, g = z.T @ weight + np.eye(x.shape[1]) / WIDE**2, z.T @ rest[mine] - leans[k] / WIDE**2
            C = np.stack([sum_by(a[mine], one, size) - sum_by(b[mine], one, size) for one in weight.T])
            taken = np.linalg.solve(H, np.column_stack([C, g]))
            S, gradient = S - C.T @ taken[:, :-1], gradient - C.T @ taken[:, -1]
            parts.append((k, g, taken[:, :-1], taken[:, -1]))
        try:
            step = np.linalg.solve(S + typical(S) * shifts, gradient)
        except LinAlgError:
            raise NotConvergedError(f"the Hessian is singular at iteration {iteration}", R, leans[:, 0]) from None
        moves, decrement = np.zeros_like(leans), float(step @ gradient)
        for k, g, by_scores, alone in parts:
            moves[k] = alone - by_scores @ step
            decrement += float(g @ alone)
        length, value = 1.0, _value(odds, cells.n, cells.s, leans.ravel())
        for _ in range(MOST_HALVINGS):
            there = R + length * step, leans + length * moves
            if _value(logits(*there), cells.n, cells.s, there[1].ravel()) >= value - 1e-12 * abs(value):
                break
            length /= 2.0
        R, leans = there[0] - shifts @ there[0], there[1]
        if decrement < NEAR:
            return Leaning(R, leans)
    raise NotConvergedError(f"not converged after {STEPS} iterations", R, leans[:, 0])


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
