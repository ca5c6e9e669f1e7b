"""Compiled loops over cells. Cells are sorted by annotator; `starts[k]` is annotator k's first cell."""

import math
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from app.rating.arrays import Floats, Indices, Ints
from app.rating.compiled import compiled
from app.rating.votes.cells import CellArrays, Cells

ANY_ORDER = frozenset({"reassoc", "nsz", "contract"})  # of a sum, so that it runs on the processor's vectors
PRODUCT_LIMIT = 1e290  # below which one more factor of at most 2 cannot overflow


@compiled
def pair_of(model_a: Ints, model_b: Ints, cell: int) -> tuple[np.uint32, np.uint32]:
    """Return the models of a cell, unsigned: an index that could be negative costs a branch."""
    return np.uint32(model_a[cell]), np.uint32(model_b[cell])


@compiled
def fill_distances(first: int, last: int, cells: CellArrays, R: Floats, theta: Floats, out: Floats) -> None:
    """Set out (n_cells,) to −|x|, x = θ_k (R_a − R_b), in the cells of annotators first … last−1."""
    starts, model_a, model_b = cells.starts, cells.model_a, cells.model_b
    for k in range(first, last):
        for cell in range(starts[k], starts[k + 1]):
            a, b = pair_of(model_a, model_b, cell)
            out[cell] = -abs(theta[k] * (R[a] - R[b]))


class Derivatives(NamedTuple):
    """What `expand_cells` adds to, and sets.

    Attributes
    ----------
    gradient_scores : shape (n_models,), added to
    stiffness : shape (n_models²,), added to at a · n_models + b of the cell
    gradient_abilities, D : shape (n_annotators,), set
    cross : shape (n_cells,), set; it holds e^−|x| of each cell before
    """

    gradient_scores: Floats
    stiffness: Floats
    gradient_abilities: Floats
    D: Floats
    cross: Floats


@compiled
def expand_cells(
    first: int, last: int, cells: CellArrays, R: Floats, theta: Floats, exact: bool, to: Derivatives
) -> float:
    """Add annotators first … last−1 to the sums of `Likelihood.expand`; return their −ℓ."""
    starts, model_a, model_b, n, s = cells.starts, cells.model_a, cells.model_b, cells.n, cells.s
    gradient_scores, stiffness, gradient_abilities, D, cross = to
    n_models = np.uint32(len(R))
    value = 0.0
    # of the factors 1 + e^−|x| of single votes in a row that weigh the same, as most of an annotator do: one logarithm
    # serves many cells
    product, weight = 1.0, 1.0
    for k in range(first, last):
        ability = theta[k]
        slope = 0.0
        curvature = 0.0
        for cell in range(starts[k], starts[k + 1]):
            a, b = pair_of(model_a, model_b, cell)
            d = R[a] - R[b]
            x = ability * d
            u = cross[cell]
            near = 1.0 / (1.0 + u)  # σ(|x|)
            p = near if x >= 0.0 else u * near
            count = n[cell]
            if count > 1.0:
                value += count * math.log1p(u)
            else:
                if count != weight or product > PRODUCT_LIMIT:
                    value += weight * math.log(product)
                    product, weight = 1.0, count
                product *= 1.0 + u
            value += count * max(x, 0.0) - s[cell] * x
            residual = s[cell] - count * p
            variance = count * near * near * u
            contribution = ability * residual
            gradient_scores[a] -= contribution
            gradient_scores[b] += contribution
            slope -= residual * d
            curvature += variance * d * d
            stiffness[a * n_models + b] += variance * ability * ability
            cross[cell] = variance * x - (residual if exact else 0.0)
        gradient_abilities[k] = slope
        D[k] = curvature
    return value + weight * math.log(product)


@compiled
def fill_rows(who: Indices, cells: CellArrays, z: Floats, weight: Floats, scale: Floats, rows: Floats) -> None:
    """Set the first rows of `rows` (n, size) to scale_k · Σ_cells weight·(e_a − e_b, z) of the annotators listed."""
    starts, model_a, model_b, n_models = cells.starts, cells.model_a, cells.model_b, rows.shape[1] - z.shape[1]
    for place in range(len(who)):
        k = who[place]
        row = rows[place]
        row[:] = 0.0
        factor = scale[k]
        for cell in range(starts[k], starts[k + 1]):
            a, b = pair_of(model_a, model_b, cell)
            amount = factor * weight[cell]
            row[a] += amount
            row[b] -= amount
        for i in range(z.shape[1]):
            row[n_models + i] = factor * dot(weight[starts[k] : starts[k + 1]], z[starts[k] : starts[k + 1], i])


@partial(compiled, fastmath=ANY_ORDER)
def dot(left: Floats, right: Floats) -> float:
    """Return Σ left·right, in any order."""
    total = 0.0
    for cell in range(len(left)):
        total += left[cell] * right[cell]
    return total


@compiled
def add_sparse_products(
    who: Indices, cells: CellArrays, z: Floats,
    left: Floats, left_scale: Floats, right: Floats, right_scale: Floats, total: Floats,
) -> None:  # fmt: skip
    """Add Σ row_kᵀ row'_k of the annotators listed to `total` (size, size).

    Visits only the models that each annotator compared.
    """
    starts, model_a, model_b = cells.starts, cells.model_a, cells.model_b
    size = total.shape[0]
    n_models = size - z.shape[1]
    u, v = np.zeros(size), np.zeros(size)
    seen = np.zeros(size, dtype=np.bool_)
    touched = np.empty(size, dtype=np.int64)
    for k in who:
        count = 0
        for cell in range(starts[k], starts[k + 1]):
            a, b = model_a[cell], model_b[cell]
            for model in (a, b):
                if not seen[model]:
                    seen[model] = True
                    touched[count] = model
                    count += 1
            u[a] += left_scale[k] * left[cell]
            u[b] -= left_scale[k] * left[cell]
            v[a] += right_scale[k] * right[cell]
            v[b] -= right_scale[k] * right[cell]
        for i in range(z.shape[1]):
            column = z[starts[k] : starts[k + 1], i]
            touched[count], count = n_models + i, count + 1
            u[n_models + i] = left_scale[k] * dot(left[starts[k] : starts[k + 1]], column)
            v[n_models + i] = right_scale[k] * dot(right[starts[k] : starts[k + 1]], column)
        for i in range(count):
            row, amount = touched[i], u[touched[i]]
            for j in range(count):
                total[row, touched[j]] += amount * v[touched[j]]
        for i in range(count):
            u[touched[i]] = v[touched[i]] = 0.0
            seen[touched[i]] = False


@compiled
def add_by_model(first: int, last: int, cells: CellArrays, weight: Floats, scales: Floats, total: Floats) -> None:
    """Add Σ_cells scale_k·weight·(e_a − e_b) of annotators first … last−1 to `total` (n, n_models).

    `scales`, shape (n, n_annotators), holds n scales, one for each row of `total`.
    """
    starts, model_a, model_b = cells.starts, cells.model_a, cells.model_b
    for k in range(first, last):
        for row in range(len(scales)):
            scale = scales[row, k]
            if scale == 0.0:
                continue
            for cell in range(starts[k], starts[k + 1]):
                a, b = pair_of(model_a, model_b, cell)
                amount = scale * weight[cell]
                total[row, a] += amount
                total[row, b] -= amount


@compiled
def times_rows(first: int, last: int, cells: CellArrays, weight: Floats, vector: Floats, out: Floats) -> None:
    """Set out_k to Σ weight·(vector_a − vector_b) over the cells of annotator k, for annotators first … last−1."""
    starts, model_a, model_b = cells.starts, cells.model_a, cells.model_b
    for k in range(first, last):
        total = 0.0
        for cell in range(starts[k], starts[k + 1]):
            a, b = pair_of(model_a, model_b, cell)
            total += weight[cell] * (vector[a] - vector[b])
        out[k] = total


@compiled
def contribute_by_cell(
    first: int, last: int, cells: CellArrays,
    R: Floats, theta: Floats, out: Floats,
) -> None:  # fmt: skip
    """Set out (n_cells,), which holds e^−|x|, to θ_k·(s − n·p) in the cells of annotators first … last−1."""
    starts, model_a, model_b, n, s = cells.starts, cells.model_a, cells.model_b, cells.n, cells.s
    for k in range(first, last):
        for cell in range(starts[k], starts[k + 1]):
            a, b = pair_of(model_a, model_b, cell)
            p, _, _ = moments(theta[k] * (R[a] - R[b]), out[cell])
            out[cell] = theta[k] * (s[cell] - n[cell] * p)


@compiled
def update_abilities(
    first: int, last: int, cells: CellArrays,
    R: Floats, precision: float, furthest: float, u: Floats, theta: Floats,
) -> None:  # fmt: skip
    """Move theta of annotators first … last−1 by a Newton step at fixed R, each ability within ± furthest.

    u is e^−|x| of each cell, shape (n_cells,).
    """
    starts, model_a, model_b, n, s = cells.starts, cells.model_a, cells.model_b, cells.n, cells.s
    for k in range(first, last):
        ability = theta[k]
        slope, curvature = precision * (ability - 1.0), precision
        for cell in range(starts[k], starts[k + 1]):
            a, b = pair_of(model_a, model_b, cell)
            d = R[a] - R[b]
            p, variance, _ = moments(ability * d, u[cell])
            slope -= (s[cell] - n[cell] * p) * d
            curvature += n[cell] * variance * d * d
        if curvature > 0.0:
            theta[k] = min(max(ability - slope / curvature, -furthest), furthest)


@compiled
def balance_pairs(
    first: int, last: int, cells: CellArrays, n_models: int,
    table: Floats,
) -> None:  # fmt: skip
    """Add n and s of the cells of annotators first … last−1 to `table` (2, n_models²), at a · n_models + b.

    A vote counts 1 / its annotator's number of votes on either of its models.
    """
    starts, model_a, model_b, n, s = cells.starts, cells.model_a, cells.model_b, cells.n, cells.s
    votes = np.zeros(n_models)
    for k in range(first, last):
        for cell in range(starts[k], starts[k + 1]):
            votes[model_a[cell]] += n[cell]
            votes[model_b[cell]] += n[cell]
        for cell in range(starts[k], starts[k + 1]):
            a, b = pair_of(model_a, model_b, cell)
            share = 1.0 / (votes[a] + votes[b] - n[cell])
            table[0, a * n_models + b] += share * n[cell]
            table[1, a * n_models + b] += share * s[cell]
        for cell in range(starts[k], starts[k + 1]):
            votes[model_a[cell]] = votes[model_b[cell]] = 0.0


@compiled
def moments(x: float, u: float) -> tuple[float, float, float]:
    """Return p = σ(x), p(1 − p) and p(1 − p)(1 − 2p), accurate for large |x| too; u is e^−|x|."""
    near = 1.0 / (1.0 + u)  # σ(|x|)
    far = u * near
    p = near if x >= 0.0 else far
    return p, near * far, near * far * (1.0 - 2.0 * p)


@compiled
def squared_residual(p: float, n: float, s: float, ties: float) -> float:
    """Return Σ (W − p)² over the votes of a cell."""
    won, lost = s - ties / 2.0, n - s - ties / 2.0
    return won * (1.0 - p) ** 2 + ties * (0.5 - p) ** 2 + lost * p**2


def squared_residuals(cells: Cells, x: Floats) -> Floats:
    """Return Σ (W − p)² over the votes of each cell, p = σ(x), x of shape (n_cells,)."""
    p = expit(x)
    squared: Floats = cells.wins_a * (1.0 - p) ** 2 + cells.ties * (0.5 - p) ** 2 + cells.wins_b * p**2
    return squared
