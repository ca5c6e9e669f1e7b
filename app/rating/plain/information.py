"""What the votes say of the scores, abilities eliminated on the constraint that their mean is 1."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh

from app.rating.arrays import Floats, Indices, sum_by
from app.rating.errors import SaddlePointError
from app.rating.fitted import FitResult
from app.rating.plain.likelihood import Derivatives, Likelihood
from app.rating.plain.m_elo import shift_projector, typical
from app.rating.votes.cells import Cells

if TYPE_CHECKING:
    from scipy.sparse import csr_array

TINY = 1e-300
ENOUGH = 0.15  # share from which too few annotators are left to learn from; votes are then also taken as independent


class UnitGroups(NamedTuple):
    """Models and annotators that votes link, directly or through others. Abilities of two groups do not compare.

    Attributes
    ----------
    models, annotators : group of each
    number : of groups
    """

    models: Indices
    annotators: Indices
    number: int

    def sum(self, values: Floats) -> Floats:
        """Sum a value per annotator over each group, shape (number,)."""
        return sum_by(self.annotators, values, self.number)


def link_groups(cells: Cells, component: Indices) -> UnitGroups:
    """Group components by the annotators who voted in them.

    Parameters
    ----------
    component : of each model, all at least 0
    """
    number = int(component.max(initial=-1)) + 1
    if number <= 1:
        return UnitGroups(np.zeros(cells.n_models, np.int64), np.zeros(cells.n_annotators, np.int64), 1)
    from scipy.sparse import coo_array  # noqa: PLC0415  slow to import, and seldom needed
    from scipy.sparse.csgraph import connected_components  # noqa: PLC0415  the same

    size = number + cells.n_annotators
    edges = component[cells.model_a], number + cells.annotator
    graph = coo_array((np.ones(len(cells.n), dtype=np.int8), edges), shape=(size, size))
    groups, label = connected_components(graph, directed=False)
    return UnitGroups(label[:number][component].astype(np.int64), label[number:].astype(np.int64), groups)


@dataclass(frozen=True)
class Information:
    """The Hessian of −ℓ at a fit, with the abilities eliminated on the constraint that their mean is 1 in every group.

    With Q = D⁻¹ − D⁻¹1 1ᵀD⁻¹/(1ᵀD⁻¹1) in every group, a change of the scores moves the abilities by −QB.

    Attributes
    ----------
    shifts : projector onto the shifts of components, shape (n_models, n_models)
    inverse_D : 0 for abilities that are known, and for those without curvature, shape (n_annotators,)
    size : 1ᵀD⁻¹1 of each group; infinite where no ability is free
    Z : 1ᵀD⁻¹B/size of each group, shape (number of groups, n_models)
    S : A − BᵀQB, shape (n_models, n_models)
    """

    likelihood: Likelihood
    point: Derivatives
    groups: UnitGroups
    shifts: Floats
    inverse_D: Floats
    size: Floats
    Z: Floats
    S: Floats

    @cached_property
    def cross(self) -> "csr_array[Any, tuple[int, int]]":
        """The cross block, sparse, shape (n_annotators, n_models)."""
        return self.likelihood.rows(self.point.cross)

    @cached_property
    def inverse(self) -> Floats:
        """S⁺, shape (n_models, n_models).

        Raises
        ------
        SaddlePointError
        """
        size = typical(self.point.A)
        try:
            factor = cho_factor(self.S + size * self.shifts)
        except LinAlgError:
            raise saddle_point(self.point, self.S + size * self.shifts) from None
        inverse: Floats = cho_solve(factor, np.eye(len(self.S)))
        return inverse - self.shifts / size

    @property
    def z(self) -> Floats:
        """By how much the scores' equations move with a unit of the constraint, shape (n_models,)."""
        z: Floats = self.Z[self.groups.models, np.arange(len(self.S))]
        return z

    def moved_rows(self, some: slice = slice(None)) -> Floats:
        """Return (QB)_k of these annotators, dense: by what the ability falls with a unit of each score."""
        if not self.inverse_D.any():  # abilities are known: the cross block is not needed
            return np.zeros((len(self.inverse_D[some]), len(self.S)))
        moved: Floats = self.inverse_D[some, None] * (self.cross[some].toarray() - self.Z[self.groups.annotators[some]])
        return moved


def find_information(cells: Cells, fit: FitResult, component: Indices, *, has_abilities: bool) -> Information:
    """Return what the votes say of the scores at a fit.

    Parameters
    ----------
    component : of each model
    has_abilities : whether abilities are found with the scores, in units of their mean; else all are 1

    Raises
    ------
    SaddlePointError
    """
    groups, likelihood = link_groups(cells, component), Likelihood(cells)
    point = likelihood.expand(fit.R, fit.theta)
    inverse_D = invert(point.D) if has_abilities else np.zeros(cells.n_annotators)
    size = groups.sum(inverse_D)
    size = np.where(size > 0.0, size, np.inf)
    along = likelihood.by_model(point.cross * inverse_D[cells.annotator]) if has_abilities else np.zeros(len(fit.R))
    rows = np.where(groups.models == np.arange(groups.number)[:, None], along, 0.0)
    shifts, Z = shift_projector(component), rows / size[:, None]
    found = Information(likelihood, point, groups, shifts, inverse_D, size, Z, point.A)
    if has_abilities:
        found = replace(found, S=eliminate(point.A, found.cross, inverse_D) + rows.T @ found.Z)
    _ = found.inverse
    return found


def invert(D: Floats) -> Floats:
    """Return 1/D, 0 where there is no curvature."""
    inverse: Floats = np.divide(1.0, D, out=np.zeros(len(D)), where=D > TINY)
    return inverse


def eliminate(A: Floats, B: "csr_array[Any, tuple[int, int]]", inverse_D: Floats) -> Floats:
    """Return A − BᵀD⁻¹B, shape (n_models, n_models)."""
    left: Floats = A - (B.T @ B.multiply(inverse_D[:, None]).tocsr()).toarray()
    return left


def saddle_point(point: Derivatives, reduced: Floats) -> SaddlePointError:
    """Return the error of a point at which the reduced information, shape (n_models, n_models), is not positive."""
    direction = eigh(reduced)[1][:, 0]
    return SaddlePointError(point.R, point.theta, direction / direction[np.argmax(np.abs(direction))])
