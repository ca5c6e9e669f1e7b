"""Compiled loops over the votes of annotators with features: x = θ d + zᵀb, d = R_a − R_b + zᵀγ, b the leans."""

import math
from typing import NamedTuple

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.compiled import compiled
from app.rating.fit.kernels import PRODUCT_LIMIT, dot, pair_of
from app.rating.fit.own_terms import OwnPrior, add_columns, fill_odds, most_cells, search
from app.rating.votes.cells import CellArrays


class FeatureDerivatives(NamedTuple):
    """What `expand_features` adds to (the first three) and sets; as in `Curvature`.

    Attributes
    ----------
    gradient_scores : shape (n_models + n_features,)
    stiffness : shape (n_models²,)
    border : rows of A for the features, shape (n_features, n_models + n_features)
    """

    gradient_scores: Floats
    stiffness: Floats
    border: Floats
    gradient_abilities: Floats
    D: Floats
    cross: Floats
    leans: Floats


@compiled
def expand_features(
    first: int, last: int, cells: CellArrays, d: Floats, z: Floats, prior: OwnPrior, near: float, exact: bool,
    at: Floats, to: FeatureDerivatives,
) -> float:  # fmt: skip
    """Add annotators first … last−1 to the sums of `FeatureLikelihood.expand`; return their −ℓ + ½ Σ precision b².

    Moves the leans in `at` (n_annotators, 1 + n_features) to their maxima, θ fixed. The last step, of a squared length
    of at most `near`, enters value and gradient by their expansion about its start: all votes are read once.
    """
    size, n_models = at.shape[1], len(to.gradient_scores) - z.shape[1]
    vectors, H, L, inverse = np.zeros((3, size)), np.empty((size, size)), np.zeros((size, size)), np.zeros((size, size))
    along, room, value = np.empty(size), np.empty((6, most_cells(first, last, cells.starts))), 0.0
    step = vectors[1]
    for k in range(first, last):
        begin, end, precision = cells.starts[k], cells.starts[k + 1], prior.precision[k]
        count = end - begin
        slope = search(
            begin, end, cells.n, cells.s, cells.ties, d, z, prior.centre, precision, 1, near, 0.0, room, at[k], vectors,
            H, L,
        )  # fmt: skip
        value += lose(cells.n[begin:end], cells.s[begin:end], room[2, :count], room[3, :count]) - 0.5 * slope
        for i in range(1, size):
            value += 0.5 * precision[i] * at[k, i] ** 2
        at[k] += step
        invert_lower(L, 1, inverse)
        ability, gradient = at[k, 0], vectors[0, 0]
        to.D[k] = H[0, 0]
        for i in range(1, size):  # along = b's curvature⁻¹ times its mixed one with θ
            along[i] = 0.0
            for j in range(1, size):
                for m in range(max(i, j), size):
                    along[i] += inverse[m, i] * inverse[m, j] * H[j, 0]
            to.D[k] -= along[i] * H[i, 0]
            gradient -= H[i, 0] * step[i]
            to.gradient_scores[n_models + i - 1] -= ability * precision[i] * at[k, i]
            for j in range(1, size):
                entry = H[max(i, j), min(i, j)] - (precision[i] if i == j else 0.0)
                to.border[i - 1, n_models + j - 1] += ability * ability * entry
        to.gradient_abilities[k] = -gradient
        add_votes(k, cells, z, ability, step[1:], room, to)
        take_out_leans(begin, z, ability, exact, along[1:], d[begin:end], room, to.cross[begin:end])
        for i in range(len(to.leans)):
            row = to.leans[i, begin:end]
            row[:] = 0.0
            add_columns(begin, z, inverse[i + 1, 1 : i + 2], row)
            variance = room[1, :count]
            for cell in range(count):
                row[cell] *= ability * variance[cell]
    return value


@compiled
def invert_lower(L: Floats, first: int, inverse: Floats) -> None:
    """Set the lower half of `inverse` to L⁻¹ from the entry `first` on."""
    for i in range(first, len(L)):
        inverse[i, i] = 1.0 / L[i, i]
        for j in range(first, i):
            total = 0.0
            for m in range(j, i):
                total -= L[i, m] * inverse[m, j]
            inverse[i, j] = total * inverse[i, i]


@compiled
def add_votes(
    k: int, cells: CellArrays, z: Floats, ability: float, step: Floats, room: Floats, to: FeatureDerivatives
) -> None:
    """Take the step of the leans off the residuals in `room`; add the votes of annotator k to the sums over models."""
    begin, n_models = cells.starts[k], len(to.gradient_scores) - z.shape[1]
    count = cells.starts[k + 1] - begin
    residual, variance, moved = room[0, :count], room[1, :count], room[4, :count]
    moved[:] = 0.0
    add_columns(begin, z, step, moved)
    for cell in range(count):
        residual[cell] -= variance[cell] * moved[cell]
        first, second = pair_of(cells.model_a, cells.model_b, begin + cell)
        contribution, stiff = ability * residual[cell], ability * ability * variance[cell]
        to.gradient_scores[first] -= contribution
        to.gradient_scores[second] += contribution
        to.stiffness[first * n_models + second] += stiff
        for i in range(z.shape[1]):
            entry = stiff * z[begin + cell, i]
            to.border[i, first] += entry
            to.border[i, second] -= entry


@compiled
def take_out_leans(
    begin: int, z: Floats, ability: float, exact: bool, along: Floats, d: Floats, room: Floats, cross: Floats
) -> None:
    """Set `cross` of an annotator's cells, the leans eliminated, from what is in `room`."""
    count = len(cross)
    residual, variance, moved = room[0, :count], room[1, :count], room[4, :count]
    moved[:] = 0.0
    add_columns(begin, z, along, moved)
    for cell in range(len(cross)):
        cross[cell] = ability * variance[cell] * (d[cell] - moved[cell]) - (residual[cell] if exact else 0.0)


@compiled
def lose(n: Floats, s: Floats, x: Floats, u: Floats) -> float:
    """Return −ℓ of cells with odds x and u = e^−|x|; one logarithm serves cells in a row that weigh the same."""
    value, product, weight = 0.0, 1.0, 1.0
    for cell in range(len(n)):
        if n[cell] != weight or product > PRODUCT_LIMIT:
            value += weight * math.log(product)
            product, weight = 1.0, n[cell]
        product *= 1.0 + u[cell]
        value += n[cell] * max(x[cell], 0.0) - s[cell] * x[cell]
    return value + weight * math.log(product)


@compiled
def sum_features(first: int, last: int, starts: Indices, weight: Floats, z: Floats, out: Floats) -> None:
    """Set out (n_annotators, n_features) of annotators first … last−1 to Σ weight·z over their cells."""
    for k in range(first, last):
        for i in range(z.shape[1]):
            out[k, i] = dot(weight[starts[k] : starts[k + 1]], z[starts[k] : starts[k + 1], i])


@compiled
def fill_distances(first: int, last: int, cells: CellArrays, R: Floats, z: Floats, d: Floats) -> None:
    """Set d (n_cells,) of annotators first … last−1 to R_a − R_b + zᵀγ; R holds the scores, then γ."""
    n_models = len(R) - z.shape[1]
    for k in range(first, last):
        begin, end = cells.starts[k], cells.starts[k + 1]
        for cell in range(begin, end):
            a, b = pair_of(cells.model_a, cells.model_b, cell)
            d[cell] = R[a] - R[b]
        add_columns(begin, z, R[n_models:], d[begin:end])


@compiled
def list_odds(first: int, last: int, starts: Indices, d: Floats, z: Floats, at: Floats, x: Floats) -> None:
    """Set x (n_cells,) of annotators first … last−1 at their (θ, b), a row of `at` each; may overwrite d."""
    for k in range(first, last):
        here = slice(starts[k], starts[k + 1])
        fill_odds(starts[k], d[here], z, at[k, 0], at[k, 1:], x[here])
