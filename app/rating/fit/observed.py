from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, eigh

from app.rating.arrays import Floats, Indices, Mask
from app.rating.errors import NotConvergedError, SaddlePointError
from app.rating.fit.arrow import Arrow, Block, constrain, shift_projector
from app.rating.fit.likelihood import Curvature, Likelihood
from app.rating.fit.result import FitResult
from app.rating.fit.scale import Scale, find_scale
from app.rating.votes.cells import Cells


@dataclass(frozen=True)
class Observed:
    """The observed information at a fit, with the abilities eliminated, factorised.

    Attributes
    ----------
    point : the derivatives
    component : of each model
    scale : the constraint on the abilities; None where they are known
    inverse_D : 1/D_k with the constraint's part, 0 for a held ability, shape (n_annotators,)
    v_over_D : v_k/D_k, shape (n_annotators,)
    along : Σ B_k v_k/D_k, shape (n_models,)
    size : vᵀD⁻¹v of each group, shape (groups,); empty where abilities are known
    loose : A − BᵀD⁻¹B, which has no constraint yet, shape (n_models, n_models)
    S : reduced Hessian, shape (n_models, n_models); singular along the shifts
    shifts : their projector
    block : S, factorised; abilities that the fit holds stay held
    """

    point: Curvature
    component: Indices
    scale: Scale | None
    inverse_D: Floats
    v_over_D: Floats
    along: Floats
    size: Floats
    loose: Floats
    S: Floats
    shifts: Floats
    block: Block

    @property
    def likelihood(self) -> Likelihood:
        """Whose information it is."""
        return self.point.likelihood

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the scores: n_models less one for every component."""
        return len(self.component) - len(np.unique(self.component))

    @property
    def typical(self) -> float:
        """Mean information on a model, abilities known."""
        return typical_information(self.point.A)

    def solve(self, vector: Floats) -> Floats:
        """Return S⁺ times a vector that sums to 0 in every component."""
        return self.block.solve(vector)

    def project(self, gradient: Floats) -> Floats:
        """Return Q times a value per annotator, shape (n_annotators,) or (n_annotators, columns)."""
        out: Floats = (self.inverse_D * gradient.T).T
        if self.scale is None or not self.size.any():
            return out
        along = np.zeros((len(self.size), *gradient.shape[1:]))
        np.add.at(along, self.scale.annotators, (self.v_over_D * gradient.T).T)
        out -= (self.v_over_D * ((along.T / self._divisor)[..., self.scale.annotators])).T
        return out

    def ability_inverse(self) -> Floats:
        """Return the diagonal of Q: by how much a unit of its gradient moves θ_k, shape (n_annotators,)."""
        if self.scale is None:
            return self.inverse_D
        return np.maximum(self.inverse_D - self.v_over_D**2 / self._divisor[self.scale.annotators], 0.0)

    @property
    def _divisor(self) -> Floats:
        return np.where(self.size > 0, self.size, np.inf)


def observe(
    cells: Cells,
    fit: FitResult,
    component: Indices,
    *,
    prior_sd: float | None,
    abilities: bool = True,
    point: Curvature | None = None,
) -> Observed:
    """Expand the objective at a fit, on the constraint that the typical ability is 1.

    Parameters
    ----------
    cells, component, prior_sd : of the fit
    abilities : False where abilities are known (m-ELO, slices)
    point : the derivatives at the fit where they are known

    Raises
    ------
    NotConvergedError
        The observed information is not positive definite: the fit is at a saddle point (`SaddlePointError`), or an
        ability has no curvature.
    """
    if point is None:
        point = Likelihood(cells, prior_sd if abilities else None).expand(fit.R, fit.theta)
    shifts, known, nothing = shift_projector(component), np.zeros(len(fit.theta)), np.zeros(len(fit.R))
    if not abilities:
        A = point.A
        block = Block(A + typical_information(A) * shifts)
        return Observed(point, component, None, known, known, nothing, np.zeros(0), A, A, shifts, block)
    # fit.theta may be in any gauge: the constraint is relative to the typical θ
    scale = find_scale(cells)
    arrow = Arrow(point.likelihood, scale, point, fit.theta, find_multiplier(scale, point, fit.theta, fit.held))
    if np.any(arrow.D[~fit.held] <= 0):
        raise NotConvergedError("the fit is no maximum: an ability without curvature", fit.R, fit.theta)
    inverse_D = np.where(fit.held, 0.0, arrow.inverse_D)
    sums = arrow.eliminate((~fit.held).astype(float), known)
    loose = point.A - sums.product
    S = loose + constrain(sums.along, sums.size, scale.models)
    try:
        block = Block(S + typical_information(point.A) * shifts)
    except LinAlgError:
        raise _saddle(S, shifts, fit) from None
    v_over_D = arrow.v * inverse_D
    return Observed(point, component, scale, inverse_D, v_over_D, sums.along, sums.size, loose, S, shifts, block)


def find_multiplier(scale: Scale, point: Curvature, theta: Floats, held: Mask) -> Floats:
    """Return the Lagrange multiplier λ of each group's constraint: g_θ + λv = 0 for free abilities at the optimum."""
    v = np.where(held | (point.D <= 0), 0.0, 1.0 - scale.bend(theta) ** 2)
    weight = v / np.where(point.D > 0, point.D, 1.0)
    size = scale.sum(v * weight)
    along = scale.sum(weight * point.gradient_abilities)
    return np.where(size > 0, -along / np.where(size > 0, size, 1.0), 0.0)


def typical_information(A: Floats) -> float:
    """Return the mean of the diagonal, 0 where no model has a score."""
    return float(np.trace(A)) / max(len(A), 1)


def _saddle(S: Floats, shifts: Floats, fit: FitResult) -> SaddlePointError:
    """Return the error with the direction in which the likelihood curves up the most."""
    # a large multiple of the projector moves the shifts, which change nothing, away from the lowest eigenvalue
    _, vectors = eigh(S + np.abs(S).sum() * shifts, subset_by_index=[0, 0])
    lowest = vectors[:, 0]
    return SaddlePointError(fit.R, fit.theta, lowest / lowest[np.argmax(np.abs(lowest))])
