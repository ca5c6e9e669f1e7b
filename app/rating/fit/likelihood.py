from dataclasses import dataclass
from functools import cached_property

import numpy as np

from app.rating.arrays import Floats, sum_by
from app.rating.fit.rows import CellRows
from app.rating.votes.cells import Cells

NEAR = 1e-6  # step of an ability after which its error is of the square of it


@dataclass(frozen=True)
class Curvature:
    """Gradient and arrow-shaped Hessian of the objective at one point (docs/math.md, "The arrow").

    Attributes
    ----------
    likelihood : whose objective it is
    value : the objective, −ℓ + prior
    gradient_scores : shape (n_models,)
    stiffness : Σ w θ² of the votes between each pair of models, at a · n_models + b, shape (n_models²,); of votes with
        features then their rows of A
    gradient_abilities : shape (n_annotators,)
    D : abilities' diagonal, shape (n_annotators,)
    cross : entry of each cell in its annotator's row of the cross block, B_k = Σ cross·(e_a − e_b), shape (n_cells,)
    leans : the same of each annotator's leans, from which Σ rowᵀrow is what they, once eliminated, take off A; they
        are eliminated from D and `cross` already; shape (n_features, n_cells)
    """

    likelihood: "Likelihood"
    value: float
    gradient_scores: Floats
    stiffness: Floats
    gradient_abilities: Floats
    D: Floats
    cross: Floats
    leans: Floats

    @cached_property
    def A(self) -> Floats:  # noqa: N802  the mathematics' own name
        """Scores' block, shape (n_models, n_models), with the rows and columns of features where there are any."""
        return scores_block(self.stiffness, self.likelihood.cells.n_models, len(self.gradient_scores))

    @cached_property
    def profile(self) -> Floats:
        """A less what the leans, once eliminated, take off it."""
        size, one = len(self.gradient_scores), np.ones(len(self.D))
        taken = [self.likelihood.products(row, one)[:size, :size] for row in self.leans]
        profile: Floats = self.A - np.sum(taken, axis=0) if taken else self.A
        return profile


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
        self.cells, self.prior_sd = cells, prior_sd
        self.precision = 0.0 if prior_sd is None else 1.0 / prior_sd**2
        self.rows = CellRows(cells, parts)

    def prior(self, theta: Floats) -> float:
        """Return the prior's part of the objective."""
        return 0.5 * self.precision * float(np.sum((theta - 1.0) ** 2))

    def products(self, weight: Floats, scale: Floats, *, rough: bool = False) -> Floats:
        """Return Σ_k row_kᵀ row_k, row_k = scale_k Σ weight·(e_a − e_b), shape (n_models, n_models); see `CellRows`."""
        return self.rows.products(weight, scale, rough=rough)

    def laplacian(self, weight: Floats) -> Floats:
        """Return Σ_cells weight·(e_a − e_b)(e_a − e_b)ᵀ, shape (n_models, n_models)."""
        size = self.cells.n_models
        pair = self.cells.model_a.astype(np.int64) * size + self.cells.model_b
        return laplacian(sum_by(pair, weight, size * size), size)


def scores_block(stiffness: Floats, n_models: int, size: int) -> Floats:
    """Return A from `Curvature.stiffness`, shape (size, size)."""
    of_models = laplacian(stiffness[: n_models**2], n_models)
    if size == n_models:
        return of_models
    A, border = np.empty((size, size)), stiffness[n_models**2 :].reshape(-1, size)
    A[:n_models, :n_models], A[n_models:], A[:, n_models:] = of_models, border, border.T
    return A


def laplacian(weight: Floats, size: int) -> Floats:
    """Return Σ weight·(e_a − e_b)(e_a − e_b)ᵀ, weights at a · size + b, shape (size, size)."""
    upper = weight.reshape(size, size)
    off: Floats = upper + upper.T
    laplacian: Floats = np.diag(off.sum(axis=1)) - off
    return laplacian
