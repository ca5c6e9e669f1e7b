from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import coo_array, csr_array

from app.rating.data.arrays import Floats, Indices
from app.rating.data.compact import pool_annotators
from app.rating.data.sums import sum_by
from app.rating.data.threads import map_parts
from app.rating.data.votes import Cells
from app.rating.solver.kernels import (
    add_by_model,
    balance,
    contribute_by_cell,
    expand_cells,
    times_rows,
    update_abilities,
)
from app.rating.solver.partition import CellRows

MOST_DENSE = 4_096  # models: a square matrix of them is 134 MB


@dataclass(frozen=True)
class Sums:
    """The sums of one partition of the annotators for the objective's derivatives; partitions add up.

    Attributes
    ----------
    value : −ℓ of its votes
    gradient_scores : shape (n_models,)
    stiffness : Σ w θ² of the votes between each pair of models, shape (n_pairs,)
    """

    value: float
    gradient_scores: Floats
    stiffness: Floats

    def __add__(self, other: "Sums") -> "Sums":
        """Add two partitions."""
        stiffness = self.stiffness + other.stiffness
        return Sums(self.value + other.value, self.gradient_scores + other.gradient_scores, stiffness)


@dataclass(frozen=True)
class Curvature:
    """Gradient and arrow-shaped Hessian of the objective at one point (docs/math.md, "The arrow").

    Attributes
    ----------
    value : the objective, −ℓ + prior
    gradient_scores : shape (n_models,)
    gradient_abilities : shape (n_annotators,)
    stiffness : Σ w θ² of the votes between each pair of models, shape (n_pairs,)
    pairs : a · n_models + b of these pairs, ascending; empty where every pair from 0 to n_models² − 1 has an entry
    cross : entry of each cell in its annotator's row of the cross block, B_k = Σ cross·(e_a − e_b), shape (n_cells,)
    D : abilities' diagonal, shape (n_annotators,)
    """

    value: float
    gradient_scores: Floats
    gradient_abilities: Floats
    stiffness: Floats
    pairs: Indices
    cross: Floats
    D: Floats

    @cached_property
    def A(self) -> Floats:  # noqa: N802  the block's name in docs/math.md
        """Scores' block, shape (n_models, n_models)."""
        size = len(self.gradient_scores)
        upper = self.stiffness.reshape(size, size)
        off: Floats = upper + upper.T
        laplacian: Floats = np.diag(off.sum(axis=1)) - off
        return laplacian

    def sparse_A(self) -> csr_array:  # noqa: N802  the block's name in docs/math.md
        """Return the scores' block as a sparse matrix, shape (n_models, n_models)."""
        size, weight = len(self.gradient_scores), self.stiffness
        a, b = np.divmod(self.pairs, size)
        entries = (np.concatenate([weight, weight, -weight, -weight]), (np.r_[a, b, a, b], np.r_[a, b, b, a]))
        return coo_array(entries, shape=(size, size)).tocsr()


class Likelihood:
    """The objective −ℓ(R, θ) + Σ_k (θ_k − 1)²/(2 sd²) over one set of cells, minimised.

    ℓ = Σ_cells s·x − n·log(1 + eˣ) with x = θ_k (R_a − R_b), R in natural units (log-odds for θ = 1).

    Parameters
    ----------
    cells : sorted by annotator
    prior_sd : None for no prior
    parts : number of parts of a pass; default by the number of cells

    Attributes
    ----------
    sparse : whether there are too many models for a square matrix
    """

    def __init__(self, cells: Cells, prior_sd: float | None, *, parts: int | None = None) -> None:
        self.cells = cells
        self.precision = 0.0 if prior_sd is None else 1.0 / prior_sd**2
        self.rows = CellRows(cells, parts)
        self.sparse = cells.n_models > MOST_DENSE
        self._pairs = np.zeros(0, dtype=np.int64)
        self._pair = np.zeros(0, dtype=np.int32)
        if self.sparse:
            name = cells.model_a.astype(np.int64) * cells.n_models + cells.model_b
            self._pairs, pair = np.unique(name, return_inverse=True)
            self._pair = pair.astype(np.int32)

    def log_likelihood(self, R: Floats, theta: Floats) -> float:
        """Return ℓ of the votes alone: natural log, no prior term, not normalised."""
        c = self.cells
        x = theta[c.annotator] * (R[c.model_a] - R[c.model_b])
        return float(np.sum(c.s * x - c.n * np.logaddexp(0.0, x)))

    def prior(self, theta: Floats) -> float:
        """Return the prior's part of the objective."""
        return 0.5 * self.precision * float(np.sum((theta - 1.0) ** 2))

    def expand(self, R: Floats, theta: Floats, *, exact: bool) -> Curvature:
        """Return gradient and Hessian at (R, θ): the observed Hessian where `exact`, else Fisher's expected one."""
        c = self.cells
        gradient_abilities, D = np.empty(c.n_annotators), np.empty(c.n_annotators)
        cross = np.empty(len(c.n))
        n_pairs = len(self._pairs) if self.sparse else c.n_models**2

        def accumulate(part: tuple[int, int]) -> Sums:
            gradient, stiffness = np.zeros(c.n_models), np.zeros(n_pairs)
            value = expand_cells(
                *part, self.rows.starts, c.model_a, c.model_b, self._pair, c.n, c.s, R, theta, exact,
                gradient, stiffness, gradient_abilities, D, cross,
            )  # fmt: skip
            return Sums(value, gradient, stiffness)

        first, *others = map_parts(accumulate, self.rows.parts)
        total = sum(others, first)
        gradient_abilities += self.precision * (theta - 1.0)
        D += self.precision
        value = total.value + self.prior(theta)
        return Curvature(value, total.gradient_scores, gradient_abilities, total.stiffness, self._pairs, cross, D)

    def by_model(self, weight: Floats, scale: Floats) -> Floats:
        """Return Σ_cells scale_k·weight·(e_a − e_b), scale of shape (n_annotators,), shape (n_models,)."""
        c = self.cells

        def accumulate(part: tuple[int, int]) -> Floats:
            total = np.zeros(c.n_models)
            add_by_model(*part, self.rows.starts, c.model_a, c.model_b, weight, scale, total)
            return total

        first, *others = map_parts(accumulate, self.rows.parts)
        total: Floats = sum(others, first)
        return total

    def times_rows(self, weight: Floats, vector: Floats) -> Floats:
        """Return each annotator's Σ weight·(e_a − e_b) times a vector over models, shape (n_annotators,)."""
        c, out = self.cells, np.empty(self.cells.n_annotators)
        self._fill(lambda part: times_rows(*part, self.rows.starts, c.model_a, c.model_b, weight, vector, out))
        return out

    def cross_block(self, weight: Floats) -> csr_array:
        """Return each annotator's Σ weight·(e_a − e_b) as a row, shape (n_annotators, n_models)."""
        c = self.cells
        columns = np.stack([c.model_a, c.model_b], axis=1).ravel()
        entries = np.stack([weight, -weight], axis=1).ravel()
        block = csr_array((entries, columns, 2 * self.rows.starts), shape=(c.n_annotators, c.n_models))
        block.sum_duplicates()
        return block

    def score_contributions(self, R: Floats, theta: Floats) -> Floats:
        """Return c = θ_k (s − n p) of each cell, shape (n_cells,).

        Annotator k's gradient of ℓ by the scores is Σ c·(e_a − e_b) over the annotator's cells.
        """
        c, out = self.cells, np.empty(len(self.cells.n))
        self._fill(
            lambda part: contribute_by_cell(*part, self.rows.starts, c.model_a, c.model_b, c.n, c.s, R, theta, out)
        )
        return out

    def update_abilities(self, R: Floats, theta: Floats, *, steps: int, furthest: float) -> Floats:
        """Return the abilities after `steps` Newton steps from θ at fixed R, each within ± furthest."""
        c, precision, moved = self.cells, self.precision, theta.copy()
        self._fill(
            lambda part: update_abilities(
                *part, self.rows.starts, c.model_a, c.model_b, c.n, c.s, R, precision, steps, furthest, moved
            )
        )
        return moved

    def balanced_pairs(self) -> Cells:
        """Return the pair table in which a cell counts 1 / its annotator's number of votes on either of its models."""
        c, share = self.cells, np.empty(len(self.cells.n))
        self._fill(lambda part: balance(*part, self.rows.starts, c.model_a, c.model_b, c.n, c.n_models, share))
        return pool_annotators(c, share)

    def _fill(self, work: Callable[[tuple[int, int]], None]) -> None:
        """Run the work on every part; each part writes its own entries."""
        map_parts(work, self.rows.parts)

    def laplacian(self, weight: Floats) -> Floats:
        """Return Σ_cells weight·(e_a − e_b)(e_a − e_b)ᵀ, shape (n_models, n_models)."""
        size = self.cells.n_models
        pair = self.cells.model_a.astype(np.int64) * size + self.cells.model_b
        upper = sum_by(pair, weight, size * size).reshape(size, size)
        off: Floats = upper + upper.T
        laplacian: Floats = np.diag(off.sum(axis=1)) - off
        return laplacian
