"""How much one annotator or one vote changes the scores, by one Newton step from the fit instead of a new fit."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property

import numpy as np

from app.rating.arrays import Floats, Indices, sum_by
from app.rating.compiled import compiled
from app.rating.fit.arrow import Observed, observe
from app.rating.fit.kernels import fill_rows
from app.rating.fit.rows import CellRows
from app.rating.fit.scale import ELO_PER_NATURAL, WIDTH
from app.rating.model.expansion import Expansion
from app.rating.threads import map_parts, one_blas_thread, split
from app.rating.uncertainty.results import Estimate
from app.rating.uncertainty.vote_changes import DROPPED, VoteChange, VoteGroups, group_changes
from app.rating.votes.cells import WORTH_A_THREAD, CellArrays

MAX_ROUNDS = 200
CONVERGED = 1e-8  # of the largest change, at which rounds stop
DIVERGED = 1e-4  # of the largest change, above which the result is not used
TINY = 1e-12
CHUNK = 512  # annotators whose removals are computed together


class Influence(ABC):
    """A fit, and what follows from it for a small change of the votes.

    Models and annotators have the indices of `rating.small`. One vote's residual r taken away moves contrast·R by
    −r (pull (y_a − y_b) − along d q_k), d = R_a − R_b, y of `solve` and q of `shares`.

    Attributes
    ----------
    pull, along : of each cell, shape (n_cells,)
    """

    pull: Floats
    along: Floats

    def __init__(self, rating: Estimate) -> None:
        self.rating = rating
        self._groups: dict[VoteChange, VoteGroups] = {}

    @abstractmethod
    def solve(self, contrasts: Floats) -> Floats:
        """Return what a unit of each score's equation moves contrast·R by; contrasts are columns, or one vector."""

    @abstractmethod
    def shares(self, Y: Floats) -> Floats:
        """Return q of each annotator for each column of Y, shape (n_annotators, m)."""

    @abstractmethod
    def without(self, left_out: slice) -> Floats:
        """Return the change of the published scores without each of these annotators, natural units."""

    @property
    def component(self) -> Indices:
        """Component of each model, shape (n_models,)."""
        return self.rating.components.label[self.rating.small.models]

    def vote_groups(self, change: VoteChange = DROPPED) -> VoteGroups:
        """Return the changes of one way that the votes behind the scores allow."""
        if change not in self._groups:
            self._groups[change] = group_changes(self.rating.small.cells, self.rating.fit, change)
        return self._groups[change]

    def of_votes(self, contrast: Floats, change: VoteChange = DROPPED) -> Floats:
        """Return the influence of one vote of each group on contrast·R: how far contrast·R falls once it is changed.

        Parameters
        ----------
        contrast : shape (n_models,), sums to 0 in each component
        change : how the vote is changed

        Returns
        -------
        float array, shape (n_groups,), in the solver's units, in the order of `vote_groups`
        """
        cells, votes = self.rating.small.cells, self.vote_groups(change)
        y = np.ascontiguousarray(self.solve(contrast))
        q = np.ascontiguousarray(self.shares(y[:, None])[:, 0])
        out = np.empty(len(votes.cell))
        map_parts(
            lambda part: influence_by_vote(
                *part, votes.cell, cells.arrays, votes.residual, self.pull, self.along, self.rating.fit.R, y, q, out
            ),
            split(len(out), WORTH_A_THREAD),
        )  # fmt: skip
        return out


class MarginalInfluence(Influence):
    """Of a fit in which abilities are integrated out; the crowd's law stays as it is."""

    def __init__(self, rating: Estimate) -> None:
        super().__init__(rating)
        if rating.marginal is None:
            raise ValueError("the fit does not integrate abilities out")
        cells = rating.small.cells
        self.expansion = Expansion(cells, rating.marginal, rating.settings.influence_limit)
        self.pull, self.along = self.expansion.weight * self.expansion.pull[cells.annotator], np.ones(len(cells.n))

    def solve(self, contrasts: Floats) -> Floats:
        """Return J⁻ᵀ times the contrasts."""
        solved: Floats = self.expansion.bread.T @ contrasts
        return solved

    def shares(self, Y: Floats) -> Floats:
        """Return q of each annotator for each column of Y, shape (n_annotators, m)."""
        return self.expansion.shares(Y)

    def without(self, left_out: slice) -> Floats:
        """Solve (J − J_k) x = −u_k by x ← J⁻¹ (J_k x − u_k), for all of them together."""
        own = self.expansion.own(left_out.start, left_out.stop)
        bread = self.expansion.bread.T

        def again(X: Floats) -> Floats:
            step: Floats = (self.expansion.curve(left_out.start, left_out.stop, own, X) - own.u) @ bread
            return step

        return _centred(_iterate(again, -own.u @ bread), self.component)


class JointInfluence(Influence):
    """Of scores that are maximised together with the abilities, or with known ones: the information at the fit."""

    def __init__(self, rating: Estimate, observed: Observed) -> None:
        super().__init__(rating)
        self.observed, cells = observed, rating.small.cells
        self.along = rating.fit.weights(cells)
        self.pull = self.along * rating.fit.theta[cells.annotator]

    def solve(self, contrasts: Floats) -> Floats:
        """Return S⁺ times the contrasts."""
        return self.observed.solve(contrasts)

    def shares(self, Y: Floats) -> Floats:
        """Return q of each annotator for each column of Y, shape (n_annotators, m)."""
        product = np.empty((self.rating.small.cells.n_annotators, Y.shape[1]))
        columns = np.ascontiguousarray(Y)
        map_parts(
            lambda part: times_columns(
                *part, self.rating.small.cells.arrays, self.observed.point.cross, columns, product
            ),
            self.observed.likelihood.rows.parts,
        )
        return self.observed.project(product)

    def without(self, left_out: slice) -> Floats:
        """Return the change of the published scores without each of these annotators, natural units."""
        return _change_without(self, self.contributions, left_out)

    @cached_property
    def contributions(self) -> Floats:
        """What each cell adds to the scores' gradient, shape (n_cells,)."""
        return self.observed.likelihood.score_contributions(self.rating.fit.R, self.rating.fit.theta)

    @cached_property
    def share(self) -> Floats:
        """By how much the published unit's equation moves with a unit of θ_k's gradient, shape (n_annotators,)."""
        return self.rating.published_unit.slope * self.observed.inverse_D

    @cached_property
    def along_unit(self) -> Floats:
        """Sum of B_k times `share`, shape (n_models,)."""
        return self.observed.likelihood.by_model(self.observed.point.cross, self.share)


def find_influence(rating: Estimate) -> Influence:
    """Expand the objective at a fit, or reuse the expansion that the fit left.

    Raises
    ------
    NotConvergedError
        The fit is at a saddle point.
    """
    fit = rating.fit
    if rating.marginal is not None:
        with one_blas_thread():
            return MarginalInfluence(rating)
    if rating.observed is not None:
        return JointInfluence(rating, rating.observed)
    with one_blas_thread():
        observed = observe(
            rating.small.cells, fit, rating.components.label[rating.small.models],
            prior_sd=fit.prior_sd, abilities=rating.has_abilities,
        )  # fmt: skip
    return JointInfluence(rating, observed)


def leave_annotators_out(influence: Influence) -> Floats:
    """Return the change of every published score if one annotator's votes were removed, for every annotator.

    One Newton step of the objective without the annotator, from the fit, on the constraint that the typical ability of
    the others is 1; published scores follow the others' unit.

    Returns
    -------
    float array, shape (n_annotators, n_models), Elo points, indices as in `rating.small`
        Groups of models that only one annotator links keep their distance without that annotator. NaN for a single
        annotator, and for an annotator whose removal leaves so few votes that the iteration below does not converge.

    Notes
    -----
    S₋ₖ differs from S by annotator k's own part, so S₋ₖ x = r is solved by x ← S⁻¹(r + (S − S₋ₖ)x) for all annotators
    together: O(n_cells + n_annotators × n_models²) a round, memory n_annotators × n_models, few rounds unless one
    annotator has a large share of the votes. Abilities at the cap stay there, and the bias correction does not change.

    References
    ----------
    Koh, Ang, Teo and Liang (2019), on one-step approximations for groups; Pregibon (1981).
    """
    cells = influence.rating.small.cells
    if cells.n_annotators == 1:
        return np.full((1, cells.n_models), np.nan)  # no vote would remain
    with one_blas_thread():
        return ELO_PER_NATURAL * _change(influence)


def leave_annotator_out(influence: Influence, annotator: int) -> Floats:
    """Return one annotator's row of `leave_annotators_out`, shape (n_models,), without computing the others.

    Costs O(n_cells + n_models²).
    """
    rating = influence.rating
    if rating.small.cells.n_annotators == 1:
        return np.full(rating.small.cells.n_models, np.nan)
    with one_blas_thread():
        change: Floats = influence.without(slice(annotator, annotator + 1))[0]
    return ELO_PER_NATURAL * change


class _Others:
    """The constraint on the typical ability of the remaining annotators, for each annotator left out.

    Attributes
    ----------
    total : Σ_j B_j v_j/D_j over the annotator's scale group, shape (n_left_out, n_models)
    others : the same without the annotator's own part
    size, whole : vᵀD⁻¹v without and with that part, shape (n_left_out,)
    lost : the Σ v_j Δθ_j by which the remaining abilities must compensate, shape (n_left_out,)
    """

    def __init__(self, influence: JointInfluence, left_out: slice) -> None:
        observed, theta = influence.observed, influence.rating.fit.theta[left_out]
        rows = _rows(influence, influence.observed.point.cross, left_out)
        self.bound = bool(observed.size.any())
        self.total, self.others = np.zeros_like(rows), np.zeros_like(rows)
        self.whole, self.size, self.lost = np.ones(len(rows)), np.ones(len(rows)), np.zeros(len(rows))
        if observed.scale is None or not self.bound:
            return
        group = observed.scale.annotators[left_out]
        v_over_D, inverse_D = observed.v_over_D[left_out], observed.inverse_D[left_out]
        self.total = np.where(observed.scale.models == group[:, None], observed.along, 0.0)
        self.others = self.total - rows * v_over_D[:, None]
        own = v_over_D**2 / np.where(inverse_D > 0, inverse_D, 1.0)  # v²/D
        self.whole = np.maximum(observed.size[group], TINY)
        self.size = np.maximum(observed.size[group] - own, TINY)
        self.lost = WIDTH * np.tanh((theta - 1.0) / WIDTH)

    def multiplier(self, X: Floats) -> Floats:
        """Return the D_j Δθ_j/v_j of the remaining annotators that keeps the typical ability at 1."""
        answer: Floats = (np.einsum("ki,ki->k", self.others, X) + self.lost) / self.size
        return answer


def _change(influence: Influence) -> Floats:
    """Return the change of the published scores, natural units, shape (n_annotators, n_models)."""
    cells = influence.rating.small.cells
    change = np.empty((cells.n_annotators, cells.n_models))
    if isinstance(influence, JointInfluence):  # what all parts, which run on threads, share
        _ = influence.contributions, influence.along_unit

    def fill(part: tuple[int, int]) -> None:
        for first in range(part[0], part[1], CHUNK):
            left_out = slice(first, min(first + CHUNK, part[1]))
            change[left_out] = influence.without(left_out)

    map_parts(fill, CellRows(cells).parts)
    return change


def _iterate(again: Callable[[Floats], Floats], X: Floats) -> Floats:
    """Repeat a contraction on rows until they stay; NaN for rows that do not."""
    moved = np.zeros(len(X))
    for _ in range(MAX_ROUNDS):
        new = again(X)
        moved = np.abs(new - X).max(axis=1, initial=0.0)
        X = new
        if np.all(moved <= CONVERGED * (1.0 + np.abs(X).max(axis=1, initial=0.0))):
            break
    X[moved > DIVERGED * (1.0 + np.abs(X).max(axis=1, initial=0.0))] = np.nan
    return X


def _change_without(influence: JointInfluence, contributions: Floats, left_out: slice) -> Floats:
    """Return the rows of `_change` for a few annotators, so that they fit into the processor's cache."""
    label, others = influence.component, _Others(influence, left_out)
    right = -_rows(influence, contributions, left_out) - others.others * (others.lost / others.size)[:, None]

    def again(X: Floats) -> Floats:
        return _solve(influence, _centred(right + _own_part(influence, others, X, left_out), label))

    X = _iterate(again, _solve(influence, _centred(right, label)))
    if not others.bound:
        return X
    change: Floats = influence.rating.unit * X + influence.rating.fit.scores * _unit_change(
        influence, others, X, left_out
    )
    return change


def _unit_change(influence: JointInfluence, others: _Others, X: Floats, left_out: slice) -> Floats:
    """Return the change of the unit of each model's group, for each annotator left out, shape (n_left_out, n_models).

    θ_j changes by −B_j·X/D_j, and by multiplier·v_j/D_j where abilities are not corrected. The unit changes by
    (Σ_j slope_j Δθ_j − excess_k) / Σ_j weight_j over the others (`Unit`).
    """
    rating, observed = influence.rating, influence.observed
    unit, scale = rating.published_unit, rating.published_unit.scale
    group = scale.annotators[left_out]
    rows = _rows(influence, observed.point.cross, left_out)
    along = np.where(scale.models == group[:, None], influence.along_unit, 0.0) - rows * influence.share[left_out, None]

    def of_others(each: Floats) -> Floats:
        return scale.sum(each)[group] - each[left_out]

    moved = -np.einsum("ki,ki->k", along, X) - unit.excess[left_out]
    if rating.fit.corrected is None:  # corrected abilities are fitted apart from the constraint
        moved += others.multiplier(X) * of_others(unit.slope * observed.v_over_D)
    weight = of_others(unit.weight)
    moved /= np.where(weight > TINY, weight, np.inf)
    changes: Floats = np.where(scale.models == group[:, None], moved[:, None], 0.0)
    return changes


def _own_part(influence: JointInfluence, others: _Others, X: Floats, left_out: slice) -> Floats:
    """Return (S − S₋ₖ) x for every annotator k left out, x the row of X."""
    fit, observed, cells = influence.rating.fit, influence.observed, influence.rating.small.cells
    out = np.empty_like(X)
    own_curvature(
        left_out.start, left_out.stop, fit.counted(cells).arrays, fit.R, fit.theta,
        observed.point.cross, observed.inverse_D, X, out,
    )  # fmt: skip
    out -= others.others * (np.einsum("ki,ki->k", others.others, X) / others.size)[:, None]
    out += others.total * (np.einsum("ki,ki->k", others.total, X) / others.whole)[:, None]
    return out


def _solve(influence: JointInfluence, right: Floats) -> Floats:
    return influence.observed.solve(right.T).T


def _centred(rows: Floats, component: Indices) -> Floats:
    """Subtract the mean of every component from each row."""
    members = np.maximum(1, np.bincount(component))  # a component without an identified model is empty
    sums = np.stack([sum_by(component, row, len(members)) for row in rows]) if len(members) > 1 else None
    means = rows.mean(axis=1, keepdims=True) if sums is None else (sums / members)[:, component]
    centred: Floats = rows - means
    return centred


def _rows(influence: JointInfluence, weight: Floats, whose: slice) -> Floats:
    """Return Σ weight·(e_a − e_b) over the cells of each of these annotators, shape (n_whose, n_models)."""
    cells = influence.rating.small.cells
    out, one = np.empty((whose.stop - whose.start, cells.n_models)), np.ones(cells.n_annotators)
    z = np.empty((len(weight), 0), order="F")
    fill_rows(np.arange(whose.start, whose.stop), cells.arrays, z, weight, one, out)
    return out


@compiled
def own_curvature(
    first: int, last: int, cells: CellArrays, R: Floats, theta: Floats,
    cross: Floats, inverse_D: Floats, X: Floats, out: Floats,
) -> None:  # fmt: skip
    """Set row k − first of `out` to (A_k − B_k B_kᵀ/D_k) x, x row k − first of X, for annotators first … last−1.

    The matrix is annotator k's part of the reduced Hessian.
    """
    starts, model_a, model_b, n = cells.starts, cells.model_a, cells.model_b, cells.n
    for k in range(first, last):
        x, product = X[k - first], out[k - first]
        product[:] = 0.0
        along = 0.0
        for cell in range(starts[k], starts[k + 1]):
            along += cross[cell] * (x[model_a[cell]] - x[model_b[cell]])
        for cell in range(starts[k], starts[k + 1]):
            a, b = model_a[cell], model_b[cell]
            u = math.exp(-abs(theta[k] * (R[a] - R[b])))
            weight = n[cell] * theta[k] ** 2 * u / (1.0 + u) ** 2
            amount = weight * (x[a] - x[b]) - cross[cell] * along * inverse_D[k]
            product[a] += amount
            product[b] -= amount


@compiled
def times_columns(first: int, last: int, cells: CellArrays, weight: Floats, Y: Floats, out: Floats) -> None:
    """Set row k of `out` to Σ weight·(Y_a − Y_b) over k's cells, Y_a a row of Y, for annotators first … last−1."""
    starts, model_a, model_b = cells.starts, cells.model_a, cells.model_b
    columns = Y.shape[1]
    for k in range(first, last):
        row = out[k]
        row[:] = 0.0
        for cell in range(starts[k], starts[k + 1]):
            y_a, y_b, amount = Y[model_a[cell]], Y[model_b[cell]], weight[cell]
            for pair in range(columns):
                row[pair] += amount * (y_a[pair] - y_b[pair])


@compiled
def influence_by_vote(
    first: int, last: int, cell: Indices, cells: CellArrays, residual: Floats, pull: Floats, along: Floats, R: Floats,
    y: Floats, q: Floats, out: Floats,
) -> None:  # fmt: skip
    """Set entries first … last−1 of `out` to residual·(pull (y_a − y_b) − along d q_k), by the entry's cell."""
    annotator, model_a, model_b = cells.annotator, cells.model_a, cells.model_b
    for entry in range(first, last):
        at = cell[entry]
        k, a, b = annotator[at], model_a[at], model_b[at]
        out[entry] = residual[entry] * (pull[at] * (y[a] - y[b]) - along[at] * (R[a] - R[b]) * q[k])
