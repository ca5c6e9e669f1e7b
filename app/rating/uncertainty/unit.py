"""The published unit as an estimating equation: who is in the crowd decides what a point is worth."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, inv

from app.rating.arrays import Floats, Indices
from app.rating.fit.arrow import shift_projector
from app.rating.fit.observed import Observed
from app.rating.fit.result import FitResult
from app.rating.fit.scale import WIDTH, Scale, unit_widths


@dataclass(frozen=True)
class UnitFrame:
    """The information about the scores with the published unit m fixed.

    In every scale group Σ_k tanh((θ_k/m − 1)/h) = 0 (`app.rating.fit.scale.typical_ability`).

    The solver fixes the scale by a constraint of its own. A change of the votes moves the published scores as if the
    unit's equation were that constraint, because (R, θ) → (cR, θ/c) changes no probability (docs/math.md, "The unit").

    Attributes
    ----------
    models, annotators : scale group of each; one group where abilities are known
    pull : mh·tanh((θ_k/m − 1)/h), what annotator k adds to the equation, shape (n_annotators,); 0 for known abilities
    distance : (θ_k/m − 1)/h, shape (n_annotators,)
    share : its derivative by θ_k over the curvature of θ_k, shape (n_annotators,)
    size : vᵀD⁻¹v of each group, shape (groups,); ∞ where no ability is free
    z : Σ B_k v_k/D_k over the annotators of each model's group, over the group's vᵀD⁻¹v, shape (n_models,)
    S : reduced Hessian A − BᵀQB, Q = D⁻¹ − D⁻¹v vᵀD⁻¹/(vᵀD⁻¹v), shape (n_models, n_models)
    """

    observed: Observed
    models: Indices
    annotators: Indices
    pull: Floats
    distance: Floats
    share: Floats
    size: Floats
    z: Floats
    S: Floats

    @cached_property
    def _factor(self) -> tuple[tuple[Floats, bool], Floats, float]:
        shifts = shift_projector(self.observed.arrow.component)
        typical = float(np.trace(self.observed.point.A) / max(len(self.S), 1))
        return cho_factor(self.S + typical * shifts, lower=True), shifts, typical

    def solve(self, right: Floats) -> Floats:
        """Return S⁺ times vectors that sum to 0 in every component, shape (n_models,) or (n_models, columns)."""
        solution: Floats = cho_solve(self._factor[0], right)
        return solution

    @cached_property
    def inverse(self) -> Floats:
        """S⁺, shape (n_models, n_models)."""
        factor, shifts, typical = self._factor
        inverse: Floats = cho_solve(factor, np.eye(len(shifts))) - shifts / typical
        return inverse

    def inverse_with(self, added: Floats) -> Floats:
        """Return (S + added)⁺; the rows and columns of `added` sum to 0 in every component."""
        _, shifts, typical = self._factor
        inverse: Floats = inv(self.S + added + typical * shifts) - shifts / typical
        return inverse


def fix_unit(observed: Observed, fit: FitResult, theta: Floats, unit: Floats) -> UnitFrame:
    """Replace the solver's constraint by the published unit's in the information at a fit.

    Where the fit of a few votes is a maximum on the solver's constraint and on no other, that constraint stays.

    Parameters
    ----------
    theta : abilities as published, in the solver's units, shape (n_annotators,)
    unit : typical ability of each annotator's scale group, shape (n_annotators,)
    """
    arrow, n_models = observed.arrow, len(fit.R)
    if arrow.scale is None:
        one_group, known = np.zeros(n_models, dtype=np.int64), np.zeros(len(theta))
        return UnitFrame(
            observed,
            one_group,
            known.astype(np.int64),
            known,
            known,
            known,
            np.full(1, np.inf),
            np.zeros(n_models),
            arrow.S,
        )
    frame = _constrained(observed, arrow.scale, theta - unit, unit * unit_widths(arrow.scale.annotators))
    try:
        frame.solve(np.zeros(n_models))
    except LinAlgError:
        return _constrained(observed, arrow.scale, fit.theta - 1.0, np.full(len(theta), WIDTH))
    return frame


def _constrained(observed: Observed, scale: Scale, distance: Floats, width: Floats) -> UnitFrame:
    """Return the information on Σ_k tanh(distance_k/width_k) = 0 in every scale group."""
    arrow = observed.arrow
    t = np.tanh(distance / width)
    v = 1.0 - t**2
    share = v * arrow.inverse_D
    size = scale.sum(v * share)
    size = np.where(size > 0, size, np.inf)
    total = observed.likelihood.by_model(observed.point.cross, share)
    S = arrow.S - (arrow.z.T * arrow.size) @ arrow.z if len(arrow.size) else arrow.S.copy()
    for group in range(scale.number):  # all cells of a model belong to one group
        mine = np.where(scale.models == group, total, 0.0)
        S += np.outer(mine, mine) / size[group]
    return UnitFrame(
        observed,
        scale.models,
        scale.annotators,
        width * t,
        distance / width,
        share,
        size,
        total / size[scale.models],
        S,
    )
