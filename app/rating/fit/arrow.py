"""The arrow-shaped Newton system: eliminate the abilities, solve the models' block (docs/math.md, "The arrow")."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from app.rating.arrays import Floats, Indices, Mask
from app.rating.fit.likelihood import Curvature, Likelihood
from app.rating.fit.scale import LEAST_CURVATURE, Scale


@dataclass(frozen=True)
class Problem:
    """An objective to minimise, with its constraints.

    Attributes
    ----------
    likelihood : the objective
    component : of each model; shifting a component's scores changes nothing, so each component's mean is kept at 0
    scale : the constraint on the abilities; None where they are fixed
    """

    likelihood: Likelihood
    component: Indices
    scale: Scale | None


class Elimination:
    """The elimination of the abilities from the arrow-shaped Newton system at one point.

    D⁻¹ is replaced by Q = D⁻¹ − D⁻¹v vᵀD⁻¹/(vᵀD⁻¹v) in each scale group, with v the gradient of the constraint, so that
    steps stay on the constraint (docs/math.md, "The arrow").

    Attributes
    ----------
    inverse_D : 1/D_k, 0 for a held ability, shape (n_annotators,)
    v_over_D : v_k/D_k, shape (n_annotators,)
    size : vᵀD⁻¹v of each group, shape (groups,); empty without a constraint
    """

    def __init__(self, problem: Problem, point: Curvature, theta: Floats, held: Mask, *, exact: bool) -> None:
        """Raise LinAlgError where an ability that is not held has no curvature."""
        self.likelihood, self.scale, self.component = problem.likelihood, problem.scale, problem.component
        D = point.D
        if self.scale is not None and exact:
            multiplier = find_multiplier(self.scale, point, theta, held)[self.scale.annotators]
            D = np.maximum(D + multiplier * self.scale.curvature(theta), LEAST_CURVATURE * D)
        if np.any(D[~held] <= 0):
            raise LinAlgError("an ability without curvature")
        self.inverse_D = np.where(held, 0.0, 1.0 / np.where(held, 1.0, D))
        self.v_over_D, self.size = np.zeros(len(theta)), np.zeros(0)
        if self.scale is not None and not held.all():
            v = self.scale.gradient(theta)
            self.v_over_D = v * self.inverse_D
            self.size = self.scale.sum(v * self.v_over_D)

    def project(self, gradient: Floats) -> Floats:
        """Return Q times a value per annotator, shape (n_annotators,) or (n_annotators, columns)."""
        out: Floats = (self.inverse_D * gradient.T).T
        if self.scale is None or len(self.size) == 0:
            return out
        size = np.where(self.size > 0, self.size, np.inf)
        if gradient.ndim == 1:
            share = self.scale.sum(self.v_over_D * gradient) / size
            return out - self.v_over_D * share[self.scale.annotators]
        along = np.zeros((len(size), gradient.shape[1]))
        np.add.at(along, self.scale.annotators, self.v_over_D[:, None] * gradient)
        out -= self.v_over_D[:, None] * (along / size[:, None])[self.scale.annotators]
        return out


class Arrow(Elimination):
    """The eliminated system with its models' block as a matrix.

    Attributes
    ----------
    z : Σ B_k v_k/D_k over each group's annotators, divided by the group's vᵀD⁻¹v, shape (groups, n_models)
    S : reduced Hessian A − BᵀQB, shape (n_models, n_models); singular along the shifts
    """

    def __init__(self, problem: Problem, point: Curvature, theta: Floats, held: Mask, *, exact: bool) -> None:
        """Raise LinAlgError where an ability that is not held has no curvature."""
        super().__init__(problem, point, theta, held, exact=exact)
        self.S = point.A.copy()
        self.z = np.zeros((len(self.size), len(self.S)))
        if self.scale is None or len(self.size) == 0:
            return
        groups = np.flatnonzero(self.size > 0)
        total = self.likelihood.by_model(point.cross, self.v_over_D)
        for group in groups:  # all cells of a model belong to one group
            self.z[group] = np.where(self.scale.models == group, total, 0.0) / self.size[group]
        self.S -= self.likelihood.rows.products(point.cross, np.sqrt(self.inverse_D))
        self.S += (self.z[groups].T * self.size[groups]) @ self.z[groups]


class Block:
    """The models' block factorised by Cholesky.

    Attributes
    ----------
    arrow : the eliminated system
    """

    def __init__(self, problem: Problem, point: Curvature, theta: Floats, held: Mask, *, exact: bool) -> None:
        """Raise LinAlgError where the reduced Hessian is not positive definite across the shifts."""
        self.arrow = Arrow(problem, point, theta, held, exact=exact)
        diagonal = np.diag(point.A)  # empty where no model has a score
        self._shifts, self._typical = shift_projector(problem.component), float(diagonal.sum() / max(len(diagonal), 1))
        self._factor = cho_factor(self.arrow.S + self._typical * self._shifts, lower=True)

    def solve(self, right: Floats) -> Floats:
        """Return S⁺ times vectors that sum to 0 in every component, shape (n_models,) or (n_models, columns)."""
        solution: Floats = cho_solve(self._factor, right)
        return solution


def find_multiplier(scale: Scale, point: Curvature, theta: Floats, held: Mask) -> Floats:
    """Return the Lagrange multiplier λ of each group's constraint: g_θ + λv = 0 for free abilities at the optimum."""
    v = np.where(held | (point.D <= 0), 0.0, scale.gradient(theta))
    weight = v / np.where(point.D > 0, point.D, 1.0)
    size = scale.sum(v * weight)
    along = scale.sum(weight * point.gradient_abilities)
    return np.where(size > 0, -along / np.where(size > 0, size, 1.0), 0.0)


def shift_projector(component: Indices) -> Floats:
    """Return the orthogonal projector on the shifts that leave the likelihood unchanged: Σ_c 1_c 1_cᵀ / |c|."""
    same = component[:, None] == component[None, :]
    projector: Floats = same / same.sum(axis=1)
    return projector
