"""The likelihood of scores and abilities, its derivatives, and its maximum in each ability at fixed scores."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit

from app.rating.arrays import Floats, sum_by
from app.rating.compiled import compiled
from app.rating.model.crowd import laplacian
from app.rating.model.kernels import ANY_ORDER, CHUNK, FACTORS, LEAST_LOG, exponentiate
from app.rating.votes.cells import CellArrays, Cells

if TYPE_CHECKING:
    from scipy.sparse import csr_array


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
        return sum_losses(self.cells.arrays, R, theta)

    def expand(self, R: Floats, theta: Floats) -> Derivatives:
        """Return value, gradient and Hessian at a point."""
        c, ability, size = self.cells, theta[self.cells.annotator], self.cells.n_models
        d, pair = R[c.model_a] - R[c.model_b], c.model_a.astype(np.int64) * size + c.model_b
        x = ability * d
        u = np.exp(-np.abs(x))
        near = 1.0 / (1.0 + u)  # σ(|x|)
        residual, variance = c.s - c.n * np.where(x < 0.0, u * near, near), c.n * u * near * near
        return Derivatives(
            R, theta, float(c.n @ (np.maximum(x, 0.0) + np.log1p(u)) - c.s @ x), -self.by_model(ability * residual),
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

    def rows(self, weight: Floats, *, signed: bool = True) -> "csr_array[Any, tuple[int, int]]":
        """Return each annotator's Σ weight (e_a − e_b), sparse, shape (n_annotators, n_models); unsigned, e_a + e_b."""
        from scipy.sparse import csr_array  # noqa: PLC0415  slow to import, and scores alone need none

        c = self.cells
        values = np.stack([weight, -weight if signed else weight], axis=1).ravel()
        models = np.stack([c.model_a, c.model_b], axis=1).ravel()
        rows = csr_array((values, models, 2 * c.starts), shape=(c.n_annotators, c.n_models))
        rows.sum_duplicates()
        return rows


MOST_STEPS, NEAR = 100, 1e-6  # of the search for one ability, and its last step


def own_abilities(cells: Cells, R: Floats, steps: int = MOST_STEPS) -> tuple[Floats, Floats]:
    """Maximise each annotator's own ℓ_k(θ_k | R) by Newton's method in a bracket, from 1.

    Returns
    -------
    The abilities, and −ℓ_k″ one step before, shape (n_annotators,) each.
    """
    k, d, size = cells.annotator, R[cells.model_a] - R[cells.model_b], cells.n_annotators
    theta, low, high, bend = np.ones(size), np.full(size, -np.inf), np.full(size, np.inf), np.zeros(size)
    for _ in range(steps):
        x = theta[k] * d
        p = expit(x)
        slope = sum_by(k, (cells.s - cells.n * p) * d, size)
        bend = sum_by(k, cells.n * p * expit(-x) * d * d, size)
        low, high = np.where(slope > 0.0, theta, low), np.where(slope < 0.0, theta, high)
        most = 2.0 + np.abs(theta)
        step = np.clip(slope / np.where(bend > 0.0, bend, np.inf), -most, most)
        there = theta + step
        with np.errstate(invalid="ignore"):  # without a bracket the step is inside
            theta = np.where((low < there) & (there < high) | (there == theta), there, 0.5 * (low + high))
        if np.abs(step).max(initial=0.0) < NEAR:
            break
    return theta, bend


def shadow_abilities(cells: Cells, R: Floats) -> tuple[Floats, Floats]:
    """Return abilities at fixed scores, of annotators who are not in the fit, and their standard errors.

    NaN for an annotator without votes, or whose votes all follow or all oppose the ranking.
    """
    along, against = count_following(cells, R)
    defined = (along > 0.0) & (against > 0.0)
    theta, curvature = own_abilities(cells.where(defined[cells.annotator]), R)
    se = 1.0 / np.sqrt(np.where(defined, curvature, 1.0))
    return np.where(defined, theta, np.nan), np.where(defined, se, np.nan)


def count_following(cells: Cells, R: Floats) -> tuple[Floats, Floats]:
    """Count each annotator's votes along the ranking R and against it; a tie is half of each, equal R do not count."""
    along, against = np.zeros((2, cells.n_annotators))
    add_following(cells.arrays, R, along, against)
    return along, against


@compiled
def add_following(cells: CellArrays, R: Floats, along: Floats, against: Floats) -> None:
    """Add what `count_following` counts."""
    for c in range(len(cells.n)):
        k, d = cells.annotator[c], R[cells.model_a[c]] - R[cells.model_b[c]]
        sign = 1.0 * (d > 0.0) - 1.0 * (d < 0.0)  # without a branch, which no processor could foresee
        some, more = 0.5 * abs(sign) * cells.n[c], sign * (cells.s[c] - 0.5 * cells.n[c])
        along[k] += some + more
        against[k] += some - more


@partial(compiled, fastmath=ANY_ORDER)
def sum_losses(cells: CellArrays, R: Floats, theta: Floats) -> float:
    """Return −ℓ. The factors 1 + e^−|x| of single votes are multiplied up, so that many take one logarithm."""
    u, power = np.empty((2, CHUNK))
    total, product = 0.0, 1.0
    for begin in range(0, len(cells.n), CHUNK):
        number = min(CHUNK, len(cells.n) - begin)
        for at in range(number):
            c = begin + at
            x = theta[cells.annotator[c]] * (R[cells.model_a[c]] - R[cells.model_b[c]])
            total += cells.n[c] * max(x, 0.0) - cells.s[c] * x
            u[at] = max(-abs(x), LEAST_LOG)
        exponentiate(u[:number], power)
        for at in range(number):
            if cells.n[begin + at] == 1.0:
                product *= 1.0 + u[at]
            else:
                total += cells.n[begin + at] * np.log1p(u[at])
            if at % FACTORS == 0:
                total, product = total + np.log(product), 1.0
    return total + float(np.log(product))
