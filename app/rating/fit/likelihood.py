from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import Protocol

import numpy as np

from app.rating.arrays import Floats, Indices, sum_by
from app.rating.fit.abilities import OwnTerms, ProfiledAbilities, profile_annotators
from app.rating.fit.kernels import Derivatives, balance_pairs, contribute_by_cell, expand_cells, update_abilities
from app.rating.fit.rows import CellRows
from app.rating.threads import map_parts
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


class AnnotatorTerms(Protocol):
    """What the solver needs of a likelihood: a sum over annotators, each with an entry of its own in the Hessian.

    The solver reads votes through these methods alone. An annotator's entry is a number, the ability θ_k, with its row
    B_k of the cross block and its diagonal D_k. What else an annotator has is eliminated by the likelihood itself
    (`Curvature.leans`).
    """

    precision: float

    def expand(
        self, R: Floats, theta: Floats, *, exact: bool, out: Floats | None = None, leans: bool = True
    ) -> Curvature:
        """Return gradient and Hessian at (R, θ), the observed one or Fisher's, and `Curvature.leans` only if asked."""

    def sum_rows(self, weight: Floats, *scales: Floats) -> Floats:
        """Return Σ_k scale_k·B_k for each scale, shape (scales, n_models)."""

    def times_rows(self, weight: Floats, vector: Floats) -> Floats:
        """Return B_k·vector of each annotator, shape (n_annotators,)."""

    def products(self, weight: Floats, scale: Floats, *, rough: bool) -> Floats:
        """Return Σ_k scale_k²·B_kᵀB_k, shape (n_models, n_models)."""

    def first_abilities(self, R: Floats, *, steps: int, furthest: float) -> Floats:
        """Return abilities a few Newton steps from 1 at fixed scores."""

    def best_abilities(self, R: Floats, theta: Floats, who: Indices, multiplier: Floats, cap: float) -> Floats:
        """Return the abilities, those listed moved to the minimum of their own terms."""


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

    def expand(
        self,
        R: Floats,
        theta: Floats,
        *,
        exact: bool = True,
        out: Floats | None = None,
        leans: bool = True,  # noqa: ARG002  as declared
    ) -> Curvature:
        """Return gradient and Hessian at (R, θ).

        Parameters
        ----------
        exact : the observed Hessian, else Fisher's expected one
        out : where to put the cross block, shape (n_cells,); default a new array
        """
        c = self.cells
        gradient_abilities, D = np.empty((2, c.n_annotators))
        cross = self.rows.exponentials(R, theta, np.empty(len(c.n)) if out is None else out)

        def accumulate(part: tuple[int, int]) -> tuple[float, Floats, Floats]:
            gradient, stiffness = np.zeros(c.n_models), np.zeros(c.n_models**2)
            value = expand_cells(
                *part, c.arrays, R, theta, exact, Derivatives(gradient, stiffness, gradient_abilities, D, cross)
            )
            return value, gradient, stiffness

        parts = zip(*map_parts(accumulate, self.rows.parts), strict=True)
        value, gradient, stiffness = (reduce(add, each) for each in parts)
        excess = theta - 1.0
        value += 0.5 * self.precision * float(excess @ excess)
        gradient_abilities += self.precision * excess
        D += self.precision
        return Curvature(self, value, gradient, stiffness, gradient_abilities, D, cross, np.empty((0, len(cross))))

    def exponentials(self, R: Floats, theta: Floats) -> Floats:
        """Return e^−|x| of each cell, shape (n_cells,)."""
        return self.rows.exponentials(R, theta, np.empty(len(self.cells.n)))

    def by_model(self, weight: Floats, scale: Floats) -> Floats:
        """Return Σ_cells scale_k·weight·(e_a − e_b), scale of shape (n_annotators,), shape (n_models,)."""
        total: Floats = self.rows.by_model(weight, scale)[0]
        return total

    def sum_rows(self, weight: Floats, *scales: Floats) -> Floats:
        """Return the same sum for each of these scales, shape (scales, n_models)."""
        return self.rows.by_model(weight, *scales)

    def times_rows(self, weight: Floats, vector: Floats) -> Floats:
        """Return each annotator's Σ weight·(e_a − e_b) times a vector over models, shape (n_annotators,)."""
        return self.rows.times(weight, vector)

    def products(self, weight: Floats, scale: Floats, *, rough: bool = False) -> Floats:
        """Return Σ_k row_kᵀ row_k, row_k = scale_k Σ weight·(e_a − e_b), shape (n_models, n_models); see `CellRows`."""
        return self.rows.products(weight, scale, rough=rough)

    def first_abilities(self, R: Floats, *, steps: int, furthest: float) -> Floats:
        """Take Newton steps on each ability from 1, at fixed scores, within ± furthest."""
        c, theta, u = self.cells, np.ones(self.cells.n_annotators), np.empty(len(self.cells.n))

        def step(part: tuple[int, int]) -> None:
            update_abilities(*part, c.arrays, R, self.precision, furthest, u, theta)

        for _ in range(steps):
            self.rows.exponentials(R, theta, u)
            map_parts(step, self.rows.parts)
        return theta

    def best_abilities(self, R: Floats, theta: Floats, who: Indices, multiplier: Floats, cap: float) -> Floats:
        """Return the abilities, those listed moved to the minimum of their own terms at these scores.

        Parameters
        ----------
        multiplier : λ of the constraint on the scale of each annotator's group, shape (n_annotators,)
        cap : upper bound
        """
        own = ProfiledAbilities(theta.copy(), *np.empty((4, len(theta))))
        terms = OwnTerms(1.0, self.precision, multiplier, cap, NEAR, False)
        profile_annotators(who, self.rows, R, terms, own)
        return own.theta

    def balanced_pairs(self) -> Floats:
        """Return n and s of every pair of models, at a · n_models + b, shape (2, n_models²).

        A vote counts 1 / its annotator's number of votes on either of its models.
        """
        c, table = self.cells, np.zeros((2, self.cells.n_models**2))
        balance_pairs(0, c.n_annotators, c.arrays, c.n_models, table)
        return table

    def score_contributions(self, R: Floats, theta: Floats) -> Floats:
        """Return c = θ_k (s − n p) of each cell, shape (n_cells,).

        Annotator k's gradient of ℓ by the scores is Σ c·(e_a − e_b) over the annotator's cells.
        """
        c, out = self.cells, self.exponentials(R, theta)
        map_parts(
            lambda part: contribute_by_cell(*part, c.arrays, R, theta, out),
            self.rows.parts,
        )
        return out

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
