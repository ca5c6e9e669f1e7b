"""What the votes say of the scores, abilities eliminated on the constraint that their mean is 1."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh

from app.rating.arrays import Floats, Indices, sum_by
from app.rating.errors import SaddlePointError
from app.rating.plain.likelihood import Derivatives, Likelihood
from app.rating.plain.m_elo import typical
from app.rating.votes.cells import Cells

TINY = 1e-300
LARGEST = 0.8  # share up to which a contribution is scaled up for what the fit takes away of it; then it tells nothing
ENOUGH = 0.15  # share from which too few annotators are left to learn from; votes are then also taken as independent


class Groups(NamedTuple):
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


def link_groups(cells: Cells, component: Indices) -> Groups:
    """Group components by the annotators who voted in them.

    Parameters
    ----------
    component : of each model, all at least 0
    """
    number = int(component.max(initial=-1)) + 1
    if number <= 1:
        return Groups(np.zeros(cells.n_models, np.int64), np.zeros(cells.n_annotators, np.int64), 1)
    from scipy.sparse import coo_array  # noqa: PLC0415  slow to import, and seldom needed
    from scipy.sparse.csgraph import connected_components  # noqa: PLC0415  the same

    size = number + cells.n_annotators
    edges = component[cells.model_a], number + cells.annotator
    graph = coo_array((np.ones(len(cells.n), dtype=np.int8), edges), shape=(size, size))
    groups, label = connected_components(graph, directed=False)
    return Groups(label[:number][component].astype(np.int64), label[number:].astype(np.int64), groups)


@dataclass(frozen=True)
class Information:
    """The Hessian of −ℓ at a point on Σ_k w_k θ_k = constant in every group.

    Parameters
    ----------
    shifts : projector onto the shifts of components, shape (n_models, n_models)
    weight : w, shape (n_annotators,); None where abilities are known

    Attributes
    ----------
    inverse_D : 0 for abilities that are known, and for those without curvature, shape (n_annotators,)
    share : w/D, shape (n_annotators,)
    size : Σ w²/D of each group; infinite where no ability is free
    along : Σ B_k w_k/D_k over the annotators of each model's group, shape (n_models,)
    S : A − BᵀQB, Q = D⁻¹ − D⁻¹w wᵀD⁻¹/(wᵀD⁻¹w), shape (n_models, n_models)
    """

    likelihood: Likelihood
    point: Derivatives
    groups: Groups
    shifts: Floats
    inverse_D: Floats
    share: Floats
    size: Floats
    along: Floats
    S: Floats

    @classmethod
    def at(
        cls, likelihood: Likelihood, point: Derivatives, groups: Groups, shifts: Floats, weight: Floats | None
    ) -> Self:
        """Eliminate the abilities at a point."""
        annotators, models = len(point.D), len(point.R)
        if weight is None:
            known, size = np.zeros(annotators), np.full(groups.number, np.inf)
            return cls(likelihood, point, groups, shifts, known, known, size, np.zeros(models), point.A)
        inverse_D = np.where(point.D > TINY, 1.0 / np.maximum(point.D, TINY), 0.0)
        share = weight * inverse_D
        size = groups.sum(weight * share)
        size = np.where(size > 0.0, size, np.inf)
        along = likelihood.by_model(point.cross * share[likelihood.cells.annotator])
        rows = np.where(groups.models == np.arange(groups.number)[:, None], along, 0.0)
        S = point.A - likelihood.products(point.cross, inverse_D) + rows.T @ (rows / size[:, None])
        return cls(likelihood, point, groups, shifts, inverse_D, share, size, along, S)

    @cached_property
    def factor(self) -> tuple[Floats, bool] | None:
        """The Cholesky factor of S with a typical curvature along the shifts; None where S is not positive definite."""
        try:
            factor: tuple[Floats, bool] = cho_factor(self.S + typical(self.point.A) * self.shifts)
        except LinAlgError:
            return None
        return factor

    @cached_property
    def inverse(self) -> Floats:
        """S⁺, shape (n_models, n_models).

        Raises
        ------
        SaddlePointError
        """
        if self.factor is None:
            direction = eigh(self.S + typical(self.point.A) * self.shifts)[1][:, 0]
            largest = direction[np.argmax(np.abs(direction))]
            raise SaddlePointError(self.point.R, self.point.theta, direction / largest)
        inverse: Floats = cho_solve(self.factor, np.eye(len(self.S)))
        return inverse - self.shifts / typical(self.point.A)

    @property
    def z(self) -> Floats:
        """By how much the scores' equations move with a unit of the constraint, shape (n_models,)."""
        z: Floats = self.along / self.size[self.groups.models]
        return z

    def project(self, values: Floats) -> Floats:
        """Return Q times values per annotator, shape (n_annotators,) or (n_annotators, m)."""
        columns = values.reshape(len(self.share), -1).T
        across = [self.groups.sum(self.share * column) / self.size for column in columns]
        moved = [
            self.inverse_D * column - self.share * each[self.groups.annotators]
            for column, each in zip(columns, across, strict=True)
        ]
        projected: Floats = np.array(moved).T.reshape(values.shape)
        return projected

    def moved_rows(self, some: slice) -> Floats:
        """Return (BᵀQ)_k of these annotators: what a unit of each ability's gradient moves the scores' by."""
        own = self.likelihood.own_rows(some, self.point.cross) * self.inverse_D[some, None]
        mine = self.groups.models == self.groups.annotators[some, None]
        moved: Floats = own - np.where(mine, self.z, 0.0) * self.share[some, None]
        return moved


def scaled_contributions(
    likelihood: Likelihood, point: Derivatives, whole: Floats
) -> Iterator[tuple[slice, slice, Floats, Floats]]:
    """Yield some annotators, their cells, what they add to the scores' gradient, and their shares of the information.

    Contributions are 1/√(1 − h) times as large as they are, for what the fit takes away of them, h the share of the
    annotator in the information on a model: rows of shape (n, n_models) both.

    Parameters
    ----------
    whole : information on each model, shape (n_models,)
    """
    each = likelihood.contributions(point.R, point.theta)
    own = point.variance * point.theta[likelihood.cells.annotator] ** 2
    for some, here, (rows,) in likelihood.rows(each):
        share = likelihood.own_rows(some, own, signed=False) / np.maximum(whole, TINY)
        yield some, here, rows / np.sqrt(1.0 - np.minimum(share, LARGEST)), share
