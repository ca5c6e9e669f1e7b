from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from app.rating.sums import Floats, sum_by
from app.rating.votes import Cells


@dataclass(frozen=True)
class Curvature:
    """Gradient and arrow-shaped Hessian of the objective at one point (docs/math.md, "The arrow").

    Attributes
    ----------
    value : the objective, −ℓ + prior
    gradient_scores : shape (n_models,)
    gradient_abilities : shape (n_annotators,)
    A : scores' block, shape (n_models, n_models)
    B : cross block, one row per annotator, shape (n_annotators, n_models)
    D : abilities' diagonal, shape (n_annotators,)
    """

    value: float
    gradient_scores: Floats
    gradient_abilities: Floats
    A: Floats
    B: csr_array
    D: Floats


class Likelihood:
    """The objective −ℓ(R, θ) + Σ_k (θ_k − 1)²/(2 sd²) over one set of cells, minimised.

    ℓ = Σ_cells s·x − n·log(1 + eˣ) with x = θ_k (R_a − R_b), R in natural units (log-odds for θ = 1).

    Parameters
    ----------
    cells : sorted by annotator; every index space is compact where it matters to the caller
    prior_sd : None for no prior
    """

    def __init__(self, cells: Cells, prior_sd: float | None) -> None:
        self.cells = cells
        self.precision = 0.0 if prior_sd is None else 1.0 / prior_sd**2
        self._pair = cells.model_a.astype(np.int64) * cells.n_models + cells.model_b
        sides = np.concatenate([cells.model_a, cells.model_b]).astype(np.int64)
        key = np.tile(cells.annotator.astype(np.int64), 2) * cells.n_models + sides
        slots, slot = np.unique(key, return_inverse=True)
        self._slot_a, self._slot_b = slot[: len(cells.n)], slot[len(cells.n) :]
        self._columns = (slots % cells.n_models).astype(np.int32)
        rows = np.bincount(slots // cells.n_models, minlength=cells.n_annotators)
        self._row_starts = np.concatenate([[0], np.cumsum(rows)]).astype(np.int32)

    def log_likelihood(self, R: Floats, theta: Floats) -> float:
        """ℓ of the votes alone: natural log, no prior term, not normalised."""
        c = self.cells
        x = theta[c.annotator] * (R[c.model_a] - R[c.model_b])
        return float(np.sum(c.s * x - c.n * np.logaddexp(0.0, x)))

    def value(self, R: Floats, theta: Floats) -> float:
        """Return the objective at (R, θ)."""
        return -self.log_likelihood(R, theta) + 0.5 * self.precision * float(np.sum((theta - 1.0) ** 2))

    def expand(self, R: Floats, theta: Floats, *, exact: bool) -> Curvature:
        """Gradient and Hessian at (R, θ): the observed one, or (not `exact`) Fisher's expected one."""
        c = self.cells
        ability = theta[c.annotator]
        d = R[c.model_a] - R[c.model_b]
        x = ability * d
        p = 1.0 / (1.0 + np.exp(-np.abs(x)))
        variance = c.n * p * (1.0 - p)
        residual = c.s - c.n * np.where(x >= 0, p, 1.0 - p)
        gradient_abilities = -sum_by(c.annotator, residual * d, c.n_annotators) + self.precision * (theta - 1.0)
        D = sum_by(c.annotator, variance * d * d, c.n_annotators) + self.precision
        cross = variance * ability * d - (residual if exact else 0.0)
        value = float(np.sum(c.n * np.logaddexp(0.0, x) - c.s * x)) + 0.5 * self.precision * float(
            np.sum((theta - 1.0) ** 2)
        )
        return Curvature(
            value, -self.by_model(ability * residual), gradient_abilities,
            self.laplacian(variance * ability**2), self.by_annotator_and_model(cross), D,
        )  # fmt: skip

    def by_model(self, weight: Floats) -> Floats:
        """Σ_cells weight·(e_a − e_b), shape (n_models,)."""
        c = self.cells
        return sum_by(c.model_a, weight, c.n_models) - sum_by(c.model_b, weight, c.n_models)

    def by_annotator_and_model(self, weight: Floats) -> csr_array:
        """Row k: Σ over k's cells of weight·(e_a − e_b), shape (n_annotators, n_models)."""
        size = len(self._columns)
        data = sum_by(self._slot_a, weight, size) - sum_by(self._slot_b, weight, size)
        shape = (self.cells.n_annotators, self.cells.n_models)
        return csr_array((data, self._columns, self._row_starts), shape=shape)

    def laplacian(self, weight: Floats) -> Floats:
        """Σ_cells weight·(e_a − e_b)(e_a − e_b)ᵀ, shape (n_models, n_models)."""
        size = self.cells.n_models
        upper = sum_by(self._pair, weight, size * size).reshape(size, size)
        off: Floats = upper + upper.T
        laplacian: Floats = np.diag(off.sum(axis=1)) - off
        return laplacian
