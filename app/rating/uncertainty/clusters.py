"""What annotators, as clusters, do to the errors: by their leverage, and as those who set the published unit."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgError, inv

from app.rating.arrays import Floats, Indices
from app.rating.compiled import compiled
from app.rating.fit.arrow import Block, Observed, constrain
from app.rating.fit.kernels import moments, pair_of
from app.rating.fit.likelihood import Likelihood
from app.rating.fit.result import FitResult
from app.rating.fit.scale import WIDTH, Scale
from app.rating.fit.unit import Unit
from app.rating.threads import map_parts
from app.rating.votes.cells import CellArrays, Cells

TINY = 1e-300  # avoids a division by 0 for a model without information
LARGEST = 0.8  # share up to which a contribution is scaled up for what the fit takes away of it; then it tells nothing
ENOUGH = 0.15  # share from which too few annotators are left to learn from; votes are then also taken as independent


@dataclass(frozen=True)
class Leverage:
    """Shares h of annotators in the information Σ w θ² on a model.

    Attributes
    ----------
    scale : 1/√(1 − h) of each cell, h the larger share of its annotator on its two models, shape (n_cells,)
    amount : Σw of each cell times (h − 0.15)/0.65, between 0 and 1, shape (n_cells,)
    effective : 1/Σ_k h_k² of each model, its effective number of annotators, shape (n_models,)
    judges : number of annotators who inform about each model, shape (n_models,)
    """

    scale: Floats
    amount: Floats
    effective: Floats
    judges: Indices


def find_leverage(likelihood: Likelihood, R: Floats, theta: Floats, information: Floats) -> Leverage:
    """Find the shares of annotators in the information on each model.

    Parameters
    ----------
    R, theta : the fit
    information : Σ w θ² of each model, shape (n_models,)
    """
    c = likelihood.cells
    scale, amount = np.ones(len(c.n)), likelihood.exponentials(R, theta)

    def fill(part: tuple[int, int]) -> Floats:
        sums = np.zeros((2, len(R)))
        share_cells(*part, c.arrays, R, theta, information, scale, amount, sums)
        return sums

    first, *others = map_parts(fill, likelihood.rows.parts)
    squares, judges = sum(others, first)
    return Leverage(scale, amount, 1.0 / np.maximum(squares, TINY), judges.astype(np.int64))


def independent_amount(cells: Cells, R: Floats, theta: Floats, information: Floats) -> Floats:
    """Return for every vote its own cluster what `Leverage.amount` is for annotators, shape (n_cells,)."""
    x = theta[cells.annotator] * (R[cells.model_a] - R[cells.model_b])
    u = np.exp(-np.abs(x))
    variance = u / (1.0 + u) ** 2
    least = np.minimum(information[cells.model_a], information[cells.model_b])
    share = variance * theta[cells.annotator] ** 2 / np.maximum(least, TINY)
    amount: Floats = cells.n * variance * np.clip((share - ENOUGH) / (LARGEST - ENOUGH), 0.0, 1.0)
    return amount


@compiled
def share_cells(
    first: int, last: int, cells: CellArrays,
    R: Floats, theta: Floats, information: Floats, scale: Floats, amount: Floats, sums: Floats,
) -> None:  # fmt: skip
    """Set scale and amount (n_cells,) of annotators first … last−1, and add their h² and their number to sums.

    `amount` holds e^−|x| of each cell before.
    """
    starts, model_a, model_b, n = cells.starts, cells.model_a, cells.model_b, cells.n
    own, inverse = np.zeros(len(R)), 1.0 / np.maximum(information, TINY)
    for k in range(first, last):
        square = theta[k] ** 2
        for cell in range(starts[k], starts[k + 1]):
            a, b = pair_of(model_a, model_b, cell)
            _, variance, _ = moments(theta[k] * (R[a] - R[b]), amount[cell])
            amount[cell] = n[cell] * variance
            own[a] += amount[cell] * square
            own[b] += amount[cell] * square
        for cell in range(starts[k], starts[k + 1]):
            a, b = pair_of(model_a, model_b, cell)
            share = max(own[a] * inverse[a], own[b] * inverse[b])
            scale[cell] = 1.0 / math.sqrt(1.0 - min(share, LARGEST))
            amount[cell] *= min(max((share - ENOUGH) / (LARGEST - ENOUGH), 0.0), 1.0)
        for cell in range(starts[k], starts[k + 1]):
            for model in pair_of(model_a, model_b, cell):
                if own[model] > 0.0:
                    sums[0, model] += (own[model] * inverse[model]) ** 2
                    sums[1, model] += 1.0
                    own[model] = 0.0


@dataclass(frozen=True)
class UnitFrame:
    """The information about the scores with the published unit fixed (`app.rating.fit.unit`).

    The solver fixes the scale by a constraint of its own. A change of the votes moves the published scores as if the
    unit's equation were that constraint, because (R, θ) → (cR, θ/c) changes no probability, and ρ takes out what it
    changes in the prior (docs/math.md, "The unit").

    Attributes
    ----------
    models, annotators : scale group of each; one group where abilities are known
    pull : what annotator k adds to the equation, shape (n_annotators,); 0 for known abilities
    share : its derivative by θ_k over the curvature of θ_k, shape (n_annotators,)
    size : vᵀD⁻¹v of each group, v the derivatives, shape (groups,); ∞ where no ability is free
    z : Σ B_k v_k/D_k over the annotators of each model's group, over the group's vᵀD⁻¹v, shape (n_models,)
    S : reduced Hessian A − BᵀQB, Q = D⁻¹ − D⁻¹v vᵀD⁻¹/(vᵀD⁻¹v), shape (n_models, n_models)
    """

    observed: Observed
    models: Indices
    annotators: Indices
    pull: Floats
    share: Floats
    size: Floats
    z: Floats
    S: Floats

    @cached_property
    def block(self) -> Block:
        """S, factorised.

        Raises
        ------
        LinAlgError
            It is not positive definite across the shifts.
        """
        return Block(self.S + self.observed.typical * self.observed.shifts)

    @cached_property
    def inverse(self) -> Floats:
        """S⁺, shape (n_models, n_models)."""
        shifts = self.observed.shifts
        inverse: Floats = self.block.solve(np.eye(len(shifts))) - shifts / self.observed.typical
        return inverse

    def inverse_with(self, added: Floats) -> Floats:
        """Return (S + added)⁺; the rows and columns of `added` sum to 0 in every component."""
        shifts, typical = self.observed.shifts, self.observed.typical
        inverse: Floats = inv(self.S + added + typical * shifts) - shifts / typical
        return inverse


def fix_unit(observed: Observed, fit: FitResult, unit: Unit | None) -> UnitFrame:
    """Replace the solver's constraint by the published unit's in the information at a fit.

    Where the fit of a few votes is a maximum on the solver's constraint and on no other, that constraint stays.
    """
    if observed.scale is None or unit is None:
        known, nothing = np.zeros(len(fit.theta)), np.zeros(len(fit.R))
        return UnitFrame(
            observed, nothing.astype(np.int64), known.astype(np.int64), known, known, np.full(1, np.inf), nothing,
            observed.S,
        )  # fmt: skip
    frame = _constrained(observed, observed.scale, unit.excess, unit.slope)
    try:
        _ = frame.block
    except LinAlgError:
        bend = observed.scale.bend(fit.theta)
        return _constrained(observed, observed.scale, WIDTH * bend, 1.0 - bend**2)
    return frame


def _constrained(observed: Observed, scale: Scale, pull: Floats, v: Floats) -> UnitFrame:
    """Return the information on Σ pull_k = 0 in every scale group, v the derivatives of the pulls by θ."""
    share = v * observed.inverse_D
    size = scale.sum(v * share)
    size = np.where(size > 0, size, np.inf)
    total = observed.likelihood.by_model(observed.point.cross, share)
    S = observed.loose + constrain(total, size, scale.models)
    z = total / size[scale.models]
    return UnitFrame(observed, scale.models, scale.annotators, pull, share, size, z, S)
