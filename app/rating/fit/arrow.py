"""The arrow-shaped Newton system: eliminate the abilities, solve the models' block (docs/math.md, "The arrow")."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, eigh
from scipy.linalg.lapack import dpotrf, dpotrs

from app.rating.arrays import Floats, Indices, Mask
from app.rating.errors import NotConvergedError, SaddlePointError
from app.rating.fit.likelihood import AnnotatorTerms, Curvature, Likelihood
from app.rating.fit.result import FitResult
from app.rating.fit.scale import Scale, find_scale, keep_curvature
from app.rating.sums import Sums
from app.rating.votes.cells import Cells

NO_CURVATURE = 1e-300  # its inverse is finite


@dataclass(frozen=True)
class Eliminated(Sums):
    """What the abilities, once eliminated, add to the system of the scores; free abilities are those not held.

    Attributes
    ----------
    product : Σ BᵀB/D of the free, shape (n_models, n_models)
    along : Σ B v/D of the free, shape (n_models,)
    moved : Σ B·answer, shape (n_models,)
    free : number of the free, for each scale group
    size : Σ v²/D of the free, for each scale group
    slack : −Σ v·answer, for each scale group
    """

    product: Floats
    along: Floats
    moved: Floats
    free: Floats
    size: Floats
    slack: Floats


def constrain(along: Floats, size: Floats, models: Indices) -> Floats:
    """Return what the constraint adds to the reduced Hessian A − BᵀD⁻¹B: Σ_groups z zᵀ/size, z the group's `along`.

    With it the Hessian is A − BᵀQB, Q = D⁻¹ − D⁻¹v vᵀD⁻¹/(vᵀD⁻¹v): steps stay on the constraint (docs/math.md, "The
    arrow").

    Parameters
    ----------
    along, size : of `Eliminated`
    models : scale group of each model
    """
    groups = np.arange(len(size))
    rows = np.where(models == groups[:, None], along, 0.0)  # all cells of a model belong to one group
    added: Floats = rows.T @ (rows / np.where(size > 0.0, size, np.inf)[:, None])
    return added


class Arrow:
    """The part of some annotators in the system at one point.

    With g and D the gradient and curvature by the abilities, B their cross block with the scores, v the gradient of the
    constraint on the scale.

    Parameters
    ----------
    multiplier : λ of each group's constraint, whose curvature λv′ is part of the observed Hessian; None for Fisher's

    Attributes
    ----------
    violation : Σ tanh((θ − 1)/0.3) of each scale group: 0 where the typical ability is 1
    v : shape (n_annotators,)
    D : with the constraint's part, shape (n_annotators,)
    inverse_D : 0 for an ability without curvature, shape (n_annotators,)
    """

    def __init__(
        self, terms: AnnotatorTerms, scale: Scale, point: Curvature, theta: Floats, multiplier: Floats | None
    ) -> None:
        self.terms, self.scale, self.point = terms, scale, point
        bend = scale.bend(theta)
        self.violation, self.v = scale.sum(bend), 1.0 - bend**2
        self.D = point.D if multiplier is None else keep_curvature(point.D, multiplier[scale.annotators], bend)
        self.inverse_D = np.where(self.D > NO_CURVATURE, 1.0 / np.maximum(self.D, NO_CURVATURE), 0.0)

    def eliminate(self, free: Floats, answer: Floats, *, products: bool = True, rough: bool = False) -> Eliminated:
        """Return the sums over these annotators, each counted `free` times.

        Parameters
        ----------
        answer : by how much each ability moves apart from the scores, with the opposite sign, shape (n_annotators,)
        products : False leaves `product` 0
        rough : sum products in single precision where that is quicker
        """
        share, cross = free * self.inverse_D, self.point.cross
        product = np.zeros((len(self.point.gradient_scores),) * 2)
        for sign in (1.0, -1.0) if products else ():
            root = np.sqrt(np.maximum(sign * share, 0.0))
            if root.any():
                product += sign * self.terms.products(cross, root, rough=rough)
        along, moved = self.terms.sum_rows(cross, share * self.v, answer)
        size, slack = self.scale.sum(share * self.v**2), -self.scale.sum(self.v * answer)
        return Eliminated(product, along, moved, self.scale.sum(free), size, slack)

    def leans(self, *, rough: bool = False) -> Floats | float:
        """Return what the annotators' leans, once eliminated, take off A; 0 where there are none."""
        one = np.ones(len(self.v))
        return sum(self.terms.products(row, one, rough=rough) for row in self.point.leans)

    def pull(self, scores: Floats, multiplier: Floats) -> Floats:
        """Return g + B·scores + λv, which a free ability answers with −1/D of it, shape (n_annotators,)."""
        of_scores = self.terms.times_rows(self.point.cross, scores)
        return self.point.gradient_abilities + of_scores + multiplier[self.scale.annotators] * self.v


class Block:
    """The models' block, factorised by Cholesky.

    Parameters
    ----------
    regular : reduced Hessian S, which is singular along the shifts, plus a multiple of `shift_projector`
    """

    def __init__(self, regular: Floats) -> None:
        """Raise LinAlgError where the reduced Hessian is not positive definite across the shifts."""
        factor, failed = dpotrf(regular, lower=1) if len(regular) else (regular, 0)
        self._factor: Floats = factor
        if failed:
            raise LinAlgError("the reduced Hessian is not positive definite")

    def solve(self, right: Floats) -> Floats:
        """Return S⁺ times vectors that sum to 0 in every component, shape (n_models,) or (n_models, columns)."""
        solution: Floats = dpotrs(self._factor, right, lower=1)[0] if len(right) else right
        return solution


def shift_projector(component: Indices) -> Floats:
    """Return the orthogonal projector on the shifts that leave the likelihood unchanged: Σ_c 1_c 1_cᵀ / |c|.

    Features, with component −1, do not shift.
    """
    same = (component[:, None] == component[None, :]) & (component >= 0)
    projector: Floats = same / np.maximum(same.sum(axis=1), 1)
    return projector


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
        """Degrees of freedom of the scores (and features): their number less one for every component."""
        return len(self.component) - len(np.unique(self.component[self.component >= 0]))

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
    abilities : False where abilities are known (m-ELO)
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
    loose = point.A - sums.product - arrow.leans()
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
