from dataclasses import dataclass

import numpy as np

from app.rating.kernels import add_by_model, expand_cells, times_rows
from app.rating.partition import CellRows
from app.rating.sums import Floats, sum_by
from app.rating.threads import map_parts
from app.rating.votes import Cells


@dataclass(frozen=True)
class Sums:
    """What one partition of the annotators adds to the objective's derivatives; partitions add up.

    Attributes
    ----------
    value : −ℓ of its votes
    gradient_scores : shape (n_models,)
    A : upper half of the scores' block before the Laplacian's diagonal, shape (n_models, n_models)
    """

    value: float
    gradient_scores: Floats
    A: Floats

    def __add__(self, other: "Sums") -> "Sums":
        """Join two partitions."""
        return Sums(self.value + other.value, self.gradient_scores + other.gradient_scores, self.A + other.A)


@dataclass(frozen=True)
class Curvature:
    """Gradient and arrow-shaped Hessian of the objective at one point (docs/math.md, "The arrow").

    Attributes
    ----------
    value : the objective, −ℓ + prior
    gradient_scores : shape (n_models,)
    gradient_abilities : shape (n_annotators,)
    A : scores' block, shape (n_models, n_models)
    cross : what each cell adds to its annotator's row of the cross block, B_k = Σ cross·(e_a − e_b), shape (n_cells,)
    D : abilities' diagonal, shape (n_annotators,)
    """

    value: float
    gradient_scores: Floats
    gradient_abilities: Floats
    A: Floats
    cross: Floats
    D: Floats


class Likelihood:
    """The objective −ℓ(R, θ) + Σ_k (θ_k − 1)²/(2 sd²) over one set of cells, minimised.

    ℓ = Σ_cells s·x − n·log(1 + eˣ) with x = θ_k (R_a − R_b), R in natural units (log-odds for θ = 1).

    Parameters
    ----------
    cells : sorted by annotator
    prior_sd : None for no prior
    threads : how many threads share a pass; default every available one, where the votes are worth it
    """

    def __init__(self, cells: Cells, prior_sd: float | None, *, threads: int | None = None) -> None:
        self.cells = cells
        self.precision = 0.0 if prior_sd is None else 1.0 / prior_sd**2
        self.rows = CellRows(cells, threads)

    def log_likelihood(self, R: Floats, theta: Floats) -> float:
        """ℓ of the votes alone: natural log, no prior term, not normalised."""
        c = self.cells
        x = theta[c.annotator] * (R[c.model_a] - R[c.model_b])
        return float(np.sum(c.s * x - c.n * np.logaddexp(0.0, x)))

    def prior(self, theta: Floats) -> float:
        """Return the prior's part of the objective."""
        return 0.5 * self.precision * float(np.sum((theta - 1.0) ** 2))

    def expand(self, R: Floats, theta: Floats, *, exact: bool) -> Curvature:
        """Gradient and Hessian at (R, θ): the observed one, or (not `exact`) Fisher's expected one."""
        c = self.cells
        gradient_abilities, D = np.empty(c.n_annotators), np.empty(c.n_annotators)
        cross = np.empty(len(c.n))

        def accumulate(part: tuple[int, int]) -> Sums:
            gradient, A = np.zeros(c.n_models), np.zeros((c.n_models, c.n_models))
            value = expand_cells(
                *part, self.rows.starts, c.model_a, c.model_b, c.n, c.s, R, theta, exact,
                gradient, A, gradient_abilities, D, cross,
            )  # fmt: skip
            return Sums(value, gradient, A)

        first, *others = map_parts(accumulate, self.rows.parts)
        total = sum(others, first)
        off = total.A + total.A.T
        A = np.diag(off.sum(axis=1)) - off
        gradient_abilities += self.precision * (theta - 1.0)
        D += self.precision
        value = total.value + self.prior(theta)
        return Curvature(value, total.gradient_scores, gradient_abilities, A, cross, D)

    def by_model(self, weight: Floats, scale: Floats) -> Floats:
        """Σ_cells scale_k·weight·(e_a − e_b), scale of shape (n_annotators,), shape (n_models,)."""
        total = np.zeros(self.cells.n_models)
        add_by_model(self.cells.model_a, self.cells.model_b, self.cells.annotator, weight, scale, total)
        return total

    def times_rows(self, weight: Floats, vector: Floats) -> Floats:
        """Row k of Σ weight·(e_a − e_b), times a vector over models, shape (n_annotators,)."""
        out = np.empty(self.cells.n_annotators)
        times_rows(self.rows.starts, self.cells.model_a, self.cells.model_b, weight, vector, out)
        return out

    def laplacian(self, weight: Floats) -> Floats:
        """Σ_cells weight·(e_a − e_b)(e_a − e_b)ᵀ, shape (n_models, n_models)."""
        size = self.cells.n_models
        pair = self.cells.model_a.astype(np.int64) * size + self.cells.model_b
        upper = sum_by(pair, weight, size * size).reshape(size, size)
        off: Floats = upper + upper.T
        laplacian: Floats = np.diag(off.sum(axis=1)) - off
        return laplacian
