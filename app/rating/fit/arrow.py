"""The arrow-shaped Newton system: eliminate the abilities, solve the models' block (docs/math.md, "The arrow")."""

from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dpotrf, dpotrs

from app.rating.arrays import Floats, Indices
from app.rating.fit.likelihood import AnnotatorTerms, Curvature
from app.rating.fit.scale import Scale, keep_curvature

NO_CURVATURE = 1e-300  # its inverse is finite


class Sums:
    """Sums over annotators; those of two partitions add up field by field."""

    def __add__(self, other: Self) -> Self:
        """Add the sums of two partitions."""
        return type(self)(*(getattr(self, x.name) + getattr(other, x.name) for x in fields(self)))  # type: ignore[arg-type]  # a dataclass


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
    """Return the orthogonal projector on the shifts that leave the likelihood unchanged: Σ_c 1_c 1_cᵀ / |c|."""
    same = component[:, None] == component[None, :]
    projector: Floats = same / same.sum(axis=1)
    return projector
