"""Exact variances with too many models for a covariance matrix: a block of right sides at a time."""

import math
from collections.abc import Iterator
from functools import partial

import numpy as np
from scipy.linalg import LinAlgError
from scipy.sparse import csr_array, diags_array

from app.rating.data.arrays import Floats, Ints
from app.rating.data.threads import map_parts, split
from app.rating.data.votes import Cells
from app.rating.errors import NotConvergedError
from app.rating.inference.leverage import leverage_adjustment
from app.rating.settings import Interval
from app.rating.solver.arrow import SparseBlock
from app.rating.solver.fit import Fit
from app.rating.solver.observed import Observed
from app.rating.solver.residuals import squared_residuals

BLOCK_ELEMENTS = 4_000_000  # of one of the dozen arrays of a block: 32 MB
WORTH_A_THREAD = 64  # right sides


def sparse_variances(
    cells: Cells, fit: Fit, observed: Observed, block: SparseBlock, kind: Interval, clusters: int
) -> tuple[Floats, Floats]:
    """Return the variances of the scores, and the standard errors of the abilities, as `covariance` defines them.

    With M = F Fᵀ the diagonal of the sandwich is the row sums of (S⁺F)²: one solution for every annotator (clustered)
    or cell (sandwich, and clustered where few annotators compared a model); S⁺ itself takes one for every model. Each
    thread needs about 400 MB.

    Raises
    ------
    NotConvergedError
        S is not positive definite, or conjugate gradients did not converge.
    """
    arrow, B_by_model = block.arrow, block.B.tocsc()
    factors = _factors(cells, fit, observed, block, kind, clusters)

    def accumulate(
        factor: csr_array, constraint: "_ConstraintTerm | None", part: tuple[int, int]
    ) -> tuple[Floats, Floats]:
        of_scores, of_abilities = np.zeros(cells.n_models), np.zeros(cells.n_annotators)
        for rows in _blocks(part, cells.n_models):
            right = factor[rows].toarray().T
            columns = block.solve(right if constraint is None else right + constraint.columns(rows))
            shares = arrow.project(block.B @ columns)
            if kind == "information":
                model = np.arange(rows.start, rows.stop)
                of_scores[rows] = columns[model, model - rows.start]
                of_abilities += np.sum(shares * arrow.project(B_by_model[:, rows].toarray()), axis=1)
            else:
                of_scores += np.sum(columns**2, axis=1)
                of_abilities += np.sum(shares**2, axis=1)
        return of_scores, of_abilities

    parts = []
    try:
        for factor, constraint in factors:
            parts += map_parts(partial(accumulate, factor, constraint), split(factor.shape[0], WORTH_A_THREAD))
    except LinAlgError as error:
        raise NotConvergedError(f"no variances at the fit: {error}", fit.R, fit.theta) from None
    of_scores = np.sum([scores for scores, _ in parts], axis=0)
    own = np.where(arrow.inverse_D > 0, observed.ability_inverse(), 1.0 / np.maximum(observed.point.D, 1e-300))
    of_abilities = own + np.sum([abilities for _, abilities in parts], axis=0)
    return of_scores, np.sqrt(np.maximum(of_abilities, 0.0))


def _blocks(part: tuple[int, int], n_models: int) -> Iterator[slice]:
    length = max(1, BLOCK_ELEMENTS // n_models)
    for first in range(*part, length):
        yield slice(first, min(first + length, part[1]))


def _factors(
    cells: Cells, fit: Fit, observed: Observed, block: SparseBlock, kind: Interval, clusters: int
) -> list[tuple[csr_array, "_ConstraintTerm | None"]]:
    """Return Fᵀ, a row for every model, annotator or cell, in parts that add up, each with its constraint term."""
    if kind == "information":
        return [(csr_array(diags_array(np.ones(cells.n_models))), None)]
    likelihood, information = observed.likelihood, block.A.diagonal()
    adjustment = leverage_adjustment(likelihood, fit.R, fit.theta, information, by_vote=kind == "sandwich")
    if kind == "sandwich":
        x = fit.theta[cells.annotator] * (fit.R[cells.model_a] - fit.R[cells.model_b])
        return [_by_vote(cells, fit, observed, block, squared_residuals(cells, x) + adjustment)]
    contributions = likelihood.cross_block(likelihood.score_contributions(fit.R, fit.theta)) * math.sqrt(
        clusters / (clusters - 1)
    )
    return [(contributions, None), _by_vote(cells, fit, observed, block, adjustment)]


def _by_vote(
    cells: Cells, fit: Fit, observed: Observed, block: SparseBlock, amount: Floats
) -> tuple[csr_array, "_ConstraintTerm"]:
    """Return √amount · u of every cell with an amount, u = θ(e_a − e_b) − d (BᵀQ)_k."""
    counted = np.flatnonzero(amount > 0)
    annotator, root = cells.annotator[counted], np.sqrt(amount[counted])
    sides = np.stack([cells.model_a[counted], cells.model_b[counted]], axis=1).ravel()
    d = fit.R[cells.model_a[counted]] - fit.R[cells.model_b[counted]]
    weight, ends = root * fit.theta[annotator], np.arange(0, 2 * len(root) + 1, 2)
    direct = csr_array((np.stack([weight, -weight], axis=1).ravel(), sides, ends), shape=(len(root), cells.n_models))
    by_ability = csr_array(block.B * block.arrow.inverse_D[:, None])[annotator]
    factor = csr_array(direct - csr_array(by_ability * (root * d)[:, None]))
    return factor, _ConstraintTerm(cells, observed, annotator, root * d)


class _ConstraintTerm:
    """The constraint's term in Fᵀ, of rank one in every scale group."""

    def __init__(self, cells: Cells, observed: Observed, annotator: Ints, along: Floats) -> None:
        """`along` is the root of the residual times d of each row, shape (rows,)."""
        arrow, scale = observed.arrow, observed.arrow.scale
        self.total = observed.likelihood.by_model(observed.point.cross, arrow.v_over_D)
        if scale is None or len(arrow.size) == 0:
            self.models, self.cell = np.zeros(cells.n_models, dtype=np.int64), np.zeros(len(along), dtype=np.int64)
            self.weight = np.zeros(len(along))
            return
        self.models, self.cell = scale.models, scale.annotators[annotator]
        size = np.where(arrow.size > 0, arrow.size, np.inf)[self.cell]
        self.weight = along * arrow.v_over_D[annotator] / size

    def columns(self, rows: slice) -> Floats:
        """Return the columns of these rows, shape (n_models, rows)."""
        mine = self.models[:, None] == self.cell[None, rows]
        columns: Floats = np.where(mine, self.total[:, None] * self.weight[None, rows], 0.0)
        return columns
