"""What the scores would be without an annotator or a vote: one Newton step from the fit, no refitting."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from app.rating.estimate import Estimate
from app.rating.fit import Fit
from app.rating.gauge import ELO_PER_NATURAL
from app.rating.influence_kernels import hold_up, own_curvature
from app.rating.observed import Observed, observe
from app.rating.scale import WIDTH
from app.rating.sums import Floats, sum_by
from app.rating.threads import map_parts, one_blas_thread, split
from app.rating.votes import WORTH_A_THREAD, Cells

MAX_ROUNDS = 200
SETTLED = 1e-8  # of the largest change, at which rounds stop
UNSETTLED = 1e-4  # and above which they lead nowhere
TINY = 1e-12
NEAR_MEDIAN = 401  # abilities around the median that are followed to where they move


@dataclass(frozen=True)
class Verdicts:
    """The votes of a fit, equal ones together: arrays of shape (n_verdicts,).

    Attributes
    ----------
    cell : index of the cell
    kind : 0 for model_a, 1 a tie, 2 for model_b
    size : how many such votes the cell has, > 0
    residual : W − p
    """

    cell: NDArray[np.int64]
    kind: NDArray[np.int64]
    size: Floats
    residual: Floats


@dataclass(frozen=True)
class Influence:
    """The information at a fit, ready to answer what a small change of the votes does to the scores.

    Models and annotators are those of `estimate.small`.
    """

    estimate: Estimate
    observed: Observed
    verdicts: Verdicts

    @property
    def component(self) -> NDArray[np.int64]:
        """Component of each model, shape (n_models,)."""
        return self.estimate.components.label[self.estimate.small.models]

    def of_votes(self, contrast: Floats) -> Floats:
        """How much of contrast·R one vote holds up: by about as much contrast·R falls when it is removed.

        Parameters
        ----------
        contrast : shape (n_models,), sums to 0 in each component

        Returns
        -------
        float array, shape (n_verdicts,), in the solver's units
        """
        fit, cells, votes = self.estimate.solution.fit, self.estimate.small.cells, self.verdicts
        y = self.observed.solve(contrast)
        q = self.observed.arrow.project(self.observed.likelihood.times_rows(self.observed.point.cross, y))
        out = np.empty(len(votes.cell))
        map_parts(
            lambda part: hold_up(
                *part, votes.cell, cells.annotator, cells.model_a, cells.model_b, votes.residual,
                fit.R, fit.theta, y, q, out,
            ),
            split(len(out), WORTH_A_THREAD),
        )  # fmt: skip
        return out


def find_influence(estimate: Estimate) -> Influence:
    """Expand the objective at a fit.

    Raises
    ------
    NotConvergedError
        The fit stands at a saddle point: no small change can be told from it.
    """
    fit, cells = estimate.solution.fit, estimate.small.cells
    with one_blas_thread():
        observed = observe(
            cells, fit, estimate.components.label[estimate.small.models],
            prior_sd=estimate.solution.prior_sd, abilities=estimate.has_abilities,
        )  # fmt: skip
    return Influence(estimate, observed, _verdicts(cells, fit))


def _verdicts(cells: Cells, fit: Fit) -> Verdicts:
    win, loss = cells.s - cells.ties / 2.0, cells.n - cells.s - cells.ties / 2.0
    size = np.stack([win, cells.ties, loss], axis=1)
    cell, kind = np.nonzero(size > 0)
    p = expit(fit.theta[cells.annotator] * (fit.R[cells.model_a] - fit.R[cells.model_b]))
    return Verdicts(cell, kind, size[cell, kind], 1.0 - kind / 2.0 - p[cell])


def leave_annotators_out(influence: Influence) -> Floats:
    """Change of every model's published score if one annotator's votes were removed, for every annotator.

    One Newton step of the objective without the annotator, from the fit, on the constraint that the typical ability of
    the others is 1; published scores follow the others' median ability.

    Returns
    -------
    float array, shape (n_annotators, n_models), Elo points, indices as in `estimate.small`
        Groups of models that one annotator alone links keep their distance without that annotator. NaN for somebody
        without whom so little is left that the rounds below do not settle.

    Notes
    -----
    S₋ₖ differs from S by annotator k's own part, so S₋ₖ x = r is solved by x ← S⁻¹(r + (S − S₋ₖ)x) for all annotators
    together: O(n_cells + n_annotators × n_models²) a round, memory n_annotators × n_models, few rounds unless somebody
    holds much of the votes. Abilities at the cap stay there, and the correction for bias stays as it is.

    References
    ----------
    Koh, Ang, Teo and Liang (2019), on one-step approximations for groups; Pregibon (1981).
    """
    with one_blas_thread():
        return ELO_PER_NATURAL * _change(influence)


class _Others:
    """What the constraint on the typical ability is for the others, one row for each annotator left out.

    Attributes
    ----------
    total : Σ_j B_j v_j/D_j over the annotator's scale group, shape (n_annotators, n_models)
    others : the same without the annotator's own part
    size, whole : vᵀD⁻¹v without and with it, shape (n_annotators,)
    lost : by how much the others' abilities must make up for the one who goes, Σ v_j Δθ_j, shape (n_annotators,)
    """

    def __init__(self, influence: Influence) -> None:
        observed, theta = influence.observed, influence.estimate.solution.fit.theta
        arrow, models = observed.arrow, influence.estimate.small.cells.n_models
        self.bound = arrow.scale is not None and len(arrow.size) > 0
        if arrow.scale is None or not self.bound:
            return
        group, cross = arrow.scale.annotators, observed.point.cross
        all_groups = observed.likelihood.by_model(cross, arrow.v_over_D)
        of_group = np.zeros((arrow.scale.number, models))
        of_group[arrow.scale.models, np.arange(models)] = all_groups  # a model's cells are all of one group
        self.total = of_group[group]
        self.others = self.total - _rows(influence, cross) * arrow.v_over_D[:, None]
        own = arrow.v_over_D**2 / np.where(arrow.inverse_D > 0, arrow.inverse_D, 1.0)  # v²/D
        self.whole = np.maximum(arrow.size[group], TINY)
        self.size = np.maximum(arrow.size[group] - own, TINY)
        self.lost = WIDTH * np.tanh((theta - 1.0) / WIDTH)

    def price(self, X: Floats) -> Floats:
        """By how much D_j Δθ_j/v_j of everybody else answers to keep the typical ability at 1."""
        answer: Floats = (np.einsum("ki,ki->k", self.others, X) + self.lost) / self.size
        return answer


def _change(influence: Influence) -> Floats:
    """Change of the published scores, natural units, shape (n_annotators, n_models)."""
    estimate, label = influence.estimate, influence.component
    others = _Others(influence)
    pull = _rows(influence, influence.observed.likelihood.pulls(estimate.solution.fit.R, estimate.solution.fit.theta))
    right = -pull if not others.bound else -pull - others.others * (others.lost / others.size)[:, None]
    X = _solve(influence, _centred(right, label))
    moved = np.full(len(X), np.inf)
    for _ in range(MAX_ROUNDS):
        new = _solve(influence, _centred(right + _own_part(influence, others, X), label))
        moved = np.abs(new - X).max(axis=1, initial=0.0)
        X = new
        if np.all(moved <= SETTLED * (1.0 + np.abs(X).max(axis=1, initial=0.0))):
            break
    X[moved > UNSETTLED * (1.0 + np.abs(X).max(axis=1, initial=0.0))] = np.nan
    if not others.bound or len(np.unique(estimate.annotator_unit)) > 1:
        return X * estimate.unit  # scales that cannot be compared keep their units
    R: Floats = estimate.solution.R
    change: Floats = (R + X) * _medians(influence, X, others.price(X))[:, None] - R * estimate.typical
    return change


def _own_part(influence: Influence, others: _Others, X: Floats) -> Floats:
    """(S − S₋ₖ) x for every annotator k, x the row of X."""
    fit, observed, cells = influence.estimate.solution.fit, influence.observed, influence.estimate.small.cells
    out = np.empty_like(X)
    map_parts(
        lambda part: own_curvature(
            *part, observed.likelihood.rows.starts, cells.model_a, cells.model_b, cells.n, fit.R, fit.theta,
            observed.point.cross, observed.arrow.inverse_D, X, out,
        ),
        observed.likelihood.rows.parts,
    )  # fmt: skip
    if others.bound:
        out -= others.others * (np.einsum("ki,ki->k", others.others, X) / others.size)[:, None]
        out += others.total * (np.einsum("ki,ki->k", others.total, X) / others.whole)[:, None]
    return out


def _solve(influence: Influence, right: Floats) -> Floats:
    return influence.observed.solve(right.T).T


def _centred(rows: Floats, component: NDArray[np.int64]) -> Floats:
    """Take every component's mean out of each row."""
    members = np.maximum(1, np.bincount(component))  # a component none of whose models has a score is empty
    sums = np.stack([sum_by(component, row, len(members)) for row in rows]) if len(members) > 1 else None
    means = rows.mean(axis=1, keepdims=True) if sums is None else (sums / members)[:, component]
    centred: Floats = rows - means
    return centred


def _rows(influence: Influence, weight: Floats) -> Floats:
    """Σ of each annotator's cells weight·(e_a − e_b), shape (n_annotators, n_models)."""
    rows, cells = influence.observed.likelihood.rows, influence.estimate.small.cells
    out = np.empty((cells.n_annotators, cells.n_models))
    one = np.ones(cells.n_annotators)

    def fill(part: tuple[int, int]) -> None:
        for (first, last), dense in rows.chunks(part, weight, one):
            out[first:last] = dense

    map_parts(fill, rows.parts)
    return out


def _medians(influence: Influence, X: Floats, price: Floats) -> Floats:
    """Median published ability of the others, for each annotator left out, shape (n_annotators,).

    θ_j moves by −B_j·X/D_j + price·v_j/D_j. Only the abilities nearest to the median are followed: the others stay on
    their side of it.
    """
    arrow, theta = influence.observed.arrow, influence.estimate.solution.theta
    everybody = len(theta)
    order = np.argsort(theta, kind="stable")
    first = max(0, everybody // 2 - NEAR_MEDIAN // 2)
    near = order[first : first + NEAR_MEDIAN]
    rows = _rows(influence, influence.observed.point.cross)[near] * arrow.inverse_D[near, None]
    moved = theta[near] - X @ rows.T + price[:, None] * arrow.v_over_D[near]
    moved[near, np.arange(len(near))] = np.inf  # left out: never in the middle
    moved.sort(axis=1)
    below = np.full(everybody, first)
    below[order[:first]] -= 1
    left = everybody - 1
    lower = np.clip((left - 1) // 2 - below, 0, len(near) - 1)
    upper = np.clip(left // 2 - below, 0, len(near) - 1)
    each: NDArray[np.int64] = np.arange(everybody)
    medians: Floats = 0.5 * (moved[each, lower] + moved[each, upper])
    return medians
