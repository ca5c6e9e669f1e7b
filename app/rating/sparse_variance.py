"""Variances where the models are too many for a covariance matrix: exact, a block of right sides at a time."""

import math
from collections.abc import Iterator

import numpy as np
from scipy.linalg import LinAlgError
from scipy.sparse import csr_array, diags_array
from scipy.special import expit

from app.rating.arrow import SparseBlock
from app.rating.errors import NotConvergedError
from app.rating.fit import Fit
from app.rating.observed import Observed
from app.rating.results import Interval
from app.rating.sums import Floats
from app.rating.threads import map_parts, split
from app.rating.votes import Cells

BLOCK_ELEMENTS = 4_000_000  # of one of the dozen arrays of a block: 32 MB
WORTH_A_THREAD = 64  # right sides


def sparse_variances(
    cells: Cells, fit: Fit, observed: Observed, block: SparseBlock, kind: Interval, clusters: int
) -> tuple[Floats, Floats]:
    """Variances of the scores, and standard errors of the abilities, as `covariance` defines them.

    With M = F Fᵀ the sandwich's diagonal is the row sums of (S⁺F)²: one solution for every annotator (clustered) or
    cell (sandwich); S⁺ itself takes one for every model. About 400 MB of working memory on each thread.

    Raises
    ------
    NotConvergedError
        S is not positive definite, or conjugate gradients did not settle.
    """
    arrow, B_by_model = block.arrow, block.B.tocsc()
    identity = csr_array(diags_array(np.ones(cells.n_models)))
    factors = identity if kind == "information" else _factors(cells, fit, observed, block, kind, clusters)
    pull = _Pull(cells, fit, observed) if kind == "sandwich" else None

    def accumulate(part: tuple[int, int]) -> tuple[Floats, Floats]:
        of_scores, of_abilities = np.zeros(cells.n_models), np.zeros(cells.n_annotators)
        for rows in _blocks(part, cells.n_models):
            right = factors[rows].toarray().T
            columns = block.solve(right if pull is None else right + pull.columns(rows))
            shares = arrow.project(block.B @ columns)
            if kind == "information":
                model = np.arange(rows.start, rows.stop)
                of_scores[rows] = columns[model, model - rows.start]
                of_abilities += np.sum(shares * arrow.project(B_by_model[:, rows].toarray()), axis=1)
            else:
                of_scores += np.sum(columns**2, axis=1)
                of_abilities += np.sum(shares**2, axis=1)
        return of_scores, of_abilities

    try:
        parts = map_parts(accumulate, split(factors.shape[0], WORTH_A_THREAD))
    except LinAlgError as error:
        raise NotConvergedError(f"no variances at the fit: {error}", fit.R, fit.theta) from None
    of_scores = np.sum([scores for scores, _ in parts], axis=0)
    own = np.where(arrow.inverse_D > 0, observed.ability_inverse(), 1.0 / np.maximum(observed.point.D, 1e-300))
    return of_scores, np.sqrt(own + np.sum([abilities for _, abilities in parts], axis=0))


def squared_residuals(cells: Cells, x: Floats) -> Floats:
    """Σ over a cell's votes of (W − p)², p = σ(x)."""
    p = expit(x)
    won, lost = cells.s - cells.ties / 2.0, cells.n - cells.s - cells.ties / 2.0
    squared: Floats = won * (1.0 - p) ** 2 + cells.ties * (0.5 - p) ** 2 + lost * p**2
    return squared


def _blocks(part: tuple[int, int], n_models: int) -> Iterator[slice]:
    length = max(1, BLOCK_ELEMENTS // n_models)
    for first in range(*part, length):
        yield slice(first, min(first + length, part[1]))


def _factors(
    cells: Cells, fit: Fit, observed: Observed, block: SparseBlock, kind: Interval, clusters: int
) -> csr_array:
    """Fᵀ without what the constraint adds: a row for every annotator or cell, n_models columns."""
    likelihood, arrow = observed.likelihood, block.arrow
    if kind == "clustered":
        return likelihood.cross_block(likelihood.pulls(fit.R, fit.theta)) * math.sqrt(clusters / (clusters - 1))
    root, d = _vote_weights(cells, fit)
    ends = np.arange(0, 2 * len(root) + 1, 2)
    sides = np.stack([cells.model_a, cells.model_b], axis=1).ravel()
    weight = root * fit.theta[cells.annotator]
    direct = csr_array((np.stack([weight, -weight], axis=1).ravel(), sides, ends), shape=(len(root), cells.n_models))
    by_ability = csr_array(block.B * arrow.inverse_D[:, None])[cells.annotator]
    return csr_array(direct - csr_array(by_ability * (root * d)[:, None]))


def _vote_weights(cells: Cells, fit: Fit) -> tuple[Floats, Floats]:
    """√Σ(W − p)² and R_a − R_b of every cell."""
    d = fit.R[cells.model_a] - fit.R[cells.model_b]
    return np.sqrt(squared_residuals(cells, fit.theta[cells.annotator] * d)), d


class _Pull:
    """What the constraint on the abilities adds to Fᵀ: of rank one in every scale group."""

    def __init__(self, cells: Cells, fit: Fit, observed: Observed) -> None:
        arrow, scale = observed.arrow, observed.arrow.scale
        self.total = observed.likelihood.by_model(observed.point.cross, arrow.v_over_D)
        root, d = _vote_weights(cells, fit)
        if scale is None or len(arrow.size) == 0:
            self.models, self.cell = np.zeros(cells.n_models, dtype=np.int64), np.zeros(len(d), dtype=np.int64)
            self.weight = np.zeros(len(d))
            return
        self.models, self.cell = scale.models, scale.annotators[cells.annotator]
        size = np.where(arrow.size > 0, arrow.size, np.inf)[self.cell]
        self.weight = root * d * arrow.v_over_D[cells.annotator] / size

    def columns(self, rows: slice) -> Floats:
        """Of these cells, shape (n_models, rows)."""
        mine = self.models[:, None] == self.cell[None, rows]
        columns: Floats = np.where(mine, self.total[:, None] * self.weight[None, rows], 0.0)
        return columns
