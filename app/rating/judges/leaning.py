"""Judges' own terms: what each maximises at given scores, the scores beside them, and the votes at the maximum."""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import block_diag, csr_array, diags_array, hstack
from scipy.sparse.linalg import spsolve
from scipy.special import expit

from app.rating.arrays import AnyInts, Floats, Indices, Mask, sum_by
from app.rating.errors import NotConvergedError
from app.rating.judges.ballots import Ballots
from app.rating.model.crowd import laplacian
from app.rating.plain.m_elo import shift_projector
from app.rating.votes.cells import Cells
from app.rating.votes.features import features_of

WIDE = 3.0  # standard deviation of the prior of a judge's own terms: of few judges it is open what a crowd would like
FEWEST = 2.0  # votes' worth of contrast in a feature, from which a lean can be known apart from scores
DEPENDENT = 1e-9  # share of a lean's information that rounding may leave
STEPS, NEAR = 50, 1e-12  # of Newton's method, and the squared length of its last step in standard errors
MOST_HALVINGS = 30


def own_columns(annotator: AnyInts, x: Floats, n_annotators: int) -> csr_array[Any, tuple[int, int]]:
    """Return the design of terms that each annotator has of its own, shape (n_votes, n_annotators · n_own).

    Parameters
    ----------
    x : of each vote, shape (n_votes, n_own)
    """
    votes, own = x.shape
    columns = annotator[:, None].astype(np.int64) * own + np.arange(own)
    return csr_array((x.ravel(), columns.ravel(), own * np.arange(votes + 1)), shape=(votes, n_annotators * own))


def score_columns(left: AnyInts, right: AnyInts, flat: Floats, size: int) -> csr_array[Any, tuple[int, int]]:
    """Return flat (e_left − e_right) of every vote, shape (n_votes, size)."""
    models, entries = np.column_stack([left, right]), np.column_stack([flat, -flat])
    return csr_array((entries.ravel(), models.ravel(), 2 * np.arange(len(flat) + 1)), shape=(len(flat), size))


def maximise(
    X: csr_array[Any, tuple[int, int]], n: Floats, s: Floats, precision: Floats, mean: Floats, at: Floats,
    flat: csr_array[Any, tuple[int, int]] | None = None,
) -> Floats:  # fmt: skip
    """Maximise Σ s x − n log(1 + eˣ) − Σ precision (at − mean)²/2 over `at`, x = X at, by Newton's method.

    The equations of a step are sparse: a judge's own terms meet those of no other judge.

    Parameters
    ----------
    X : shape (n_votes, n_terms)
    n, s : votes, and how many of them were won, shape (n_votes,)
    precision, mean : of the prior, shape (n_terms,)
    at : where the search begins, shape (n_terms,)
    flat : projector onto directions that change nothing, shape (n_terms, n_terms)

    Raises
    ------
    NotConvergedError
    """

    def value(at: Floats) -> float:
        odds = X @ at
        return float(s @ odds - n @ np.logaddexp(0.0, odds) - precision @ (at - mean) ** 2 / 2.0)

    for _ in range(STEPS):
        p = expit(X @ at)
        gradient = X.T @ (s - n * p) - precision * (at - mean)
        information = csr_array(X.T @ X.multiply((n * p * (1.0 - p))[:, None]).tocsr() + diags_array(precision))
        if flat is not None:
            curvature = float(information.diagonal()[flat.diagonal() > 0.0].mean())
            information = csr_array(information + curvature * flat)
        step = spsolve(information.tocsc(), gradient)
        lengths, least = 0.5 ** np.arange(MOST_HALVINGS), value(at) - 1e-12 * abs(value(at))
        at = next((there for there in (at + x * step for x in lengths) if value(there) >= least), at)
        if float(step @ gradient) < NEAR:
            return at
    raise NotConvergedError(f"not converged after {STEPS} iterations", at, at)


class JudgeLeans(NamedTuple):
    """Scores, shape (n_models,), and every judge's leans, shape (n_annotators, n_features)."""

    R: Floats
    leans: Floats


def fit_leaning(cells: Cells, component: Indices, R: Floats) -> JudgeLeans:
    """Maximise ℓ(R, b) − Σ_k |b_k|²/(2·3²), P(left wins) = σ(R_left − R_right + xᵀb_k), which is jointly concave.

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
    leans = cells.n_annotators * x.shape[1]
    X = hstack(
        [
            own_columns(cells.annotator, x, cells.n_annotators),
            score_columns(cells.model_a, cells.model_b, np.ones(len(x)), size),
        ]
    )
    precision, start = np.repeat([WIDE**-2, 0.0], [leans, size]), np.append(np.zeros(leans), R)
    flat = csr_array(block_diag([csr_array((leans, leans)), shifts]))
    at = maximise(csr_array(X), cells.n, cells.s, precision, np.zeros(len(start)), start, flat)
    R = at[leans:]
    return JudgeLeans(R - shifts @ R, at[:leans].reshape(-1, x.shape[1]))


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


class OwnVotes:
    """Votes where log odds are o + X (own, R), at the maximum over `own` under the prior N(·, 3²).

    Attributes
    ----------
    bread : H⁻¹ of the own terms, the prior in it, shape (n_own, n_own)
    information : Σ w x xᵀ and the prior, shape (n_own + n_models,) × 2
    by_battle : each battle's gradient by own terms and scores, shape (n_battles, n_own + n_models)
    moves : what a shift of a model's score takes off the own terms, shape (n_own, n_models)
    profile : gradient of the scores as the own terms follow them, by the whole one, shape (n_models, n_own + n_models)
    """

    def __init__(self, one: Ballots, X: csr_array[Any, tuple[int, int]], own: int, odds: Floats, battles: int) -> None:
        p = expit(odds)
        self.own, self.number, self.battles = own, len(p), battles
        self.battle, self.X = one.battle, X
        self.curved = X.multiply((one.weight * p * (1.0 - p))[:, None]).tocsr()
        self.pulls = X.multiply((one.weight * (one.votes.outcome - p))[:, None]).tocsr()
        prior = np.repeat([WIDE**-2, 0.0], [own, X.shape[1] - own])
        self.information, self.by_battle = (X.T @ self.curved).toarray() + np.diag(prior), self.sum_by_battle()
        self.bread = np.linalg.inv(self.information[:own, :own]).astype(np.float64)
        self.moves = self.bread @ self.information[:own, own:]
        self.profile = np.hstack([-self.moves.T, np.eye(self.moves.shape[1])])

    def sum_by_battle(
        self, some: Mask | slice = slice(None), values: csr_array[Any, tuple[int, int]] | None = None
    ) -> csr_array[Any, tuple[int, int]]:
        """Sum rows of some votes over battles; without values the gradients."""
        battle = self.battle[some]
        of = csr_array((np.ones(len(battle)), (battle, np.arange(len(battle)))), shape=(self.battles, len(battle)))
        return csr_array(of @ (self.pulls if values is None else values)[some])

    @cached_property
    def noise(self) -> Floats:
        """Σ g gᵀ over battles, g the gradient of one."""
        noise: Floats = (self.by_battle.T @ self.by_battle).toarray()
        return noise

    def crossed(self, by_battle: csr_array[Any, tuple[int, int]]) -> Floats:
        """Σ g hᵀ over battles, g the scores' gradient of one, h a row of others' terms, shape (n_models, n_terms)."""
        both = min(self.battles, by_battle.shape[0])
        crossed: Floats = self.profile @ (self.by_battle[:both].T @ by_battle[:both]).toarray()
        return crossed

    @cached_property
    def gradient(self) -> Floats:
        """Σ g over battles."""
        return np.asarray(self.by_battle.sum(axis=0), dtype=np.float64)

    @cached_property
    def profile_information(self) -> Floats:
        """Information on the scores as own terms follow them, shape (n_models, n_models)."""
        left: Floats = self.information[self.own :, self.own :] - self.information[self.own :, : self.own] @ self.moves
        return left
