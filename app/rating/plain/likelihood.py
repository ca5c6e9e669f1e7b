"""The likelihood of scores and abilities, and its derivatives."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from app.rating.arrays import Floats, sum_by
from app.rating.model.crowd import laplacian
from app.rating.votes.cells import Cells

BLOCK = 1 << 21  # numbers in the rows that are held at once


@dataclass(frozen=True)
class Derivatives:
    """The objective −ℓ at one point, with its gradient and Hessian.

    Attributes
    ----------
    R, theta : where
    gradient_scores : shape (n_models,)
    gradient_abilities : shape (n_annotators,)
    variance : n p (1 − p) of each cell, shape (n_cells,)
    A : the scores' block Σ θ² variance (e_a − e_b)(e_a − e_b)′, shape (n_models, n_models)
    D : the abilities' diagonal, shape (n_annotators,)
    cross : of each cell in its annotator's row of the cross block, B_k = Σ cross (e_a − e_b), shape (n_cells,)
    expected : the same of Fisher's information, which is positive semidefinite
    """

    R: Floats
    theta: Floats
    value: float
    gradient_scores: Floats
    gradient_abilities: Floats
    variance: Floats
    A: Floats
    D: Floats
    cross: Floats
    expected: Floats


class Likelihood:
    """−ℓ(R, θ) with ℓ = Σ_cells s·x − n·log(1 + eˣ), x = θ_k (R_a − R_b), R in natural units.

    Parameters
    ----------
    cells : sorted by annotator
    """

    def __init__(self, cells: Cells) -> None:
        self.cells = cells

    def value(self, R: Floats, theta: Floats) -> float:
        """Return −ℓ."""
        c = self.cells
        x = theta[c.annotator] * (R[c.model_a] - R[c.model_b])
        return _value(c, x, np.exp(-np.abs(x)))

    def expand(self, R: Floats, theta: Floats) -> Derivatives:
        """Return value, gradient and Hessian at a point."""
        c, ability, size = self.cells, theta[self.cells.annotator], self.cells.n_models
        d, pair = R[c.model_a] - R[c.model_b], c.model_a.astype(np.int64) * size + c.model_b
        x = ability * d
        u = np.exp(-np.abs(x))
        near = 1.0 / (1.0 + u)  # σ(|x|)
        residual, variance = c.s - c.n * np.where(x < 0.0, u * near, near), c.n * u * near * near
        return Derivatives(
            R, theta, _value(c, x, u), -self.by_model(ability * residual),
            -sum_by(c.annotator, residual * d, c.n_annotators), variance,
            laplacian(sum_by(pair, variance * ability * ability, size * size).reshape(size, size)),
            sum_by(c.annotator, variance * d * d, c.n_annotators), variance * x - residual,
            variance * x,
        )  # fmt: skip

    def contributions(self, R: Floats, theta: Floats) -> Floats:
        """Return θ_k (s − n p) of each cell, whose Σ c (e_a − e_b) is its annotator's gradient of ℓ by the scores."""
        c = self.cells
        ability = theta[c.annotator]
        contributions: Floats = ability * (c.s - c.n * expit(ability * (R[c.model_a] - R[c.model_b])))
        return contributions

    def by_model(self, weight: Floats) -> Floats:
        """Return Σ_cells weight (e_a − e_b), shape (n_models,)."""
        c = self.cells
        return sum_by(c.model_a, weight, c.n_models) - sum_by(c.model_b, weight, c.n_models)

    def times(self, weight: Floats, vector: Floats) -> Floats:
        """Return each annotator's Σ weight (e_a − e_b) times a vector over models, shape (n_annotators,)."""
        c = self.cells
        return sum_by(c.annotator, weight * (vector[c.model_a] - vector[c.model_b]), c.n_annotators)

    def rows(self, *weights: Floats, signed: bool = True) -> Iterator[tuple[slice, slice, list[Floats]]]:
        """Yield some annotators at a time, their cells, and for each weight their rows Σ weight (e_a − e_b).

        Parameters
        ----------
        weights : shape (n_cells,) each
        signed : with False Σ weight (e_a + e_b)
        """
        size, starts = self.cells.n_models, self.cells.starts
        step = max(1, BLOCK // max(size, 1))
        for first in range(0, self.cells.n_annotators, step):
            some = slice(first, min(first + step, self.cells.n_annotators))
            here = slice(int(starts[some.start]), int(starts[some.stop]))
            yield some, here, [self.own_rows(some, weight, signed=signed) for weight in weights]

    def own_rows(self, some: slice, weight: Floats, *, signed: bool = True) -> Floats:
        """Return the rows Σ weight (e_a − e_b) of these annotators, (n, n_models); unsigned Σ weight (e_a + e_b)."""
        c, shape = self.cells, (some.stop - some.start, self.cells.n_models)
        here = slice(*c.starts[[some.start, some.stop]])
        row, own = (c.annotator[here].astype(np.int64) - some.start) * c.n_models, weight[here]
        a, b = (sum_by(row + model[here], own, shape[0] * shape[1]).reshape(shape) for model in (c.model_a, c.model_b))
        return a - b if signed else a + b

    def products(self, weight: Floats, scale: Floats) -> Floats:
        """Return Σ_k scale_k row_k′ row_k, row_k = Σ weight (e_a − e_b), shape (n_models, n_models)."""
        total = np.zeros((self.cells.n_models,) * 2)
        for some, _, (rows,) in self.rows(weight):
            total += (rows * scale[some, None]).T @ rows
        return total


def _value(c: Cells, x: Floats, u: Floats) -> float:
    """Return −ℓ, u = e^−|x|."""
    return float(c.n @ (np.maximum(x, 0.0) + np.log1p(u)) - c.s @ x)
