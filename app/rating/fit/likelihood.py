from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from app.rating.arrays import Floats, sum_by
from app.rating.fit.kernels import contribute_by_cell, expand_cells
from app.rating.fit.rows import CellRows
from app.rating.threads import map_parts
from app.rating.votes.cells import Cells


@dataclass(frozen=True)
class Curvature:
    """Gradient and arrow-shaped Hessian of the objective at one point (docs/math.md, "The arrow").

    Attributes
    ----------
    value : the objective, −ℓ + prior
    gradient_scores : shape (n_models,)
    gradient_abilities : shape (n_annotators,)
    A : scores' block, shape (n_models, n_models)
    cross : entry of each cell in its annotator's row of the cross block, B_k = Σ cross·(e_a − e_b), shape (n_cells,)
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
    parts : number of parts of a pass; default by the number of cells
    """

    def __init__(self, cells: Cells, prior_sd: float | None, *, parts: int | None = None) -> None:
        self.cells = cells
        self.precision = 0.0 if prior_sd is None else 1.0 / prior_sd**2
        self.rows = CellRows(cells, parts)

    def log_likelihood(self, R: Floats, theta: Floats) -> float:
        """Return ℓ of the votes alone: natural log, no prior term, not normalised."""
        c = self.cells
        x = theta[c.annotator] * (R[c.model_a] - R[c.model_b])
        return float(np.sum(c.s * x - c.n * np.logaddexp(0.0, x)))

    def prior(self, theta: Floats) -> float:
        """Return the prior's part of the objective."""
        return 0.5 * self.precision * float(np.sum((theta - 1.0) ** 2))

    def value(self, R: Floats, theta: Floats) -> float:
        """Return the objective."""
        return self.prior(theta) - self.log_likelihood(R, theta)

    def expand(self, R: Floats, theta: Floats) -> Curvature:
        """Return gradient and observed Hessian at (R, θ)."""
        c = self.cells
        gradient_abilities, D = np.empty(c.n_annotators), np.empty(c.n_annotators)
        cross = self.exponentials(R, theta)

        def accumulate(part: tuple[int, int]) -> tuple[float, Floats, Floats]:
            gradient, stiffness = np.zeros(c.n_models), np.zeros(c.n_models**2)
            value = expand_cells(
                *part, self.rows.starts, c.model_a, c.model_b, c.n, c.s, R, theta, True,
                gradient, stiffness, gradient_abilities, D, cross,
            )  # fmt: skip
            return value, gradient, stiffness

        parts = zip(*map_parts(accumulate, self.rows.parts), strict=True)
        value, gradient, stiffness = (reduce(add, each) for each in parts)
        gradient_abilities += self.precision * (theta - 1.0)
        D += self.precision
        A = laplacian(stiffness, c.n_models)
        return Curvature(value + self.prior(theta), gradient, gradient_abilities, A, cross, D)

    def exponentials(self, R: Floats, theta: Floats) -> Floats:
        """Return e^−|x| of each cell, shape (n_cells,)."""
        return self.rows.exponentials(R, theta, np.empty(len(self.cells.n)))

    def by_model(self, weight: Floats, scale: Floats) -> Floats:
        """Return Σ_cells scale_k·weight·(e_a − e_b), scale of shape (n_annotators,), shape (n_models,)."""
        total: Floats = self.rows.by_model(weight, scale)[0]
        return total

    def times_rows(self, weight: Floats, vector: Floats) -> Floats:
        """Return each annotator's Σ weight·(e_a − e_b) times a vector over models, shape (n_annotators,)."""
        return self.rows.times(weight, vector)

    def score_contributions(self, R: Floats, theta: Floats) -> Floats:
        """Return c = θ_k (s − n p) of each cell, shape (n_cells,).

        Annotator k's gradient of ℓ by the scores is Σ c·(e_a − e_b) over the annotator's cells.
        """
        c, out = self.cells, self.exponentials(R, theta)
        map_parts(
            lambda part: contribute_by_cell(*part, self.rows.starts, c.model_a, c.model_b, c.n, c.s, R, theta, out),
            self.rows.parts,
        )
        return out

    def laplacian(self, weight: Floats) -> Floats:
        """Return Σ_cells weight·(e_a − e_b)(e_a − e_b)ᵀ, shape (n_models, n_models)."""
        size = self.cells.n_models
        pair = self.cells.model_a.astype(np.int64) * size + self.cells.model_b
        return laplacian(sum_by(pair, weight, size * size), size)


def laplacian(weight: Floats, size: int) -> Floats:
    """Return Σ weight·(e_a − e_b)(e_a − e_b)ᵀ, weights at a · size + b, shape (size, size)."""
    upper = weight.reshape(size, size)
    off: Floats = upper + upper.T
    laplacian: Floats = np.diag(off.sum(axis=1)) - off
    return laplacian
