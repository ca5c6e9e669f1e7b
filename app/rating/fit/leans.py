"""Compiled loops over the votes of annotators with features: x = θ d + zᵀb, d = R_a − R_b + zᵀγ, b the leans."""

import math
from typing import NamedTuple

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.compiled import compiled
from app.rating.fit.kernels import PRODUCT_LIMIT, pair_of
from app.rating.fit.own_terms import dot, factorise, fill_odds, fill_residuals, most_cells, solve_lower
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
    first: int, last: int, cells: CellArrays, d: Floats, z: Floats, theta: Floats, b: Floats, precision: Floats,
    exact: bool, to: FeatureDerivatives,
) -> float:  # fmt: skip
    """Add annotators first … last−1 to the sums of `FeatureLikelihood.expand`; return their −ℓ + ½ Σ precision b².

    precision (n_annotators, n_features): of the leans' prior.
    """
    size, n_models = z.shape[1], len(to.gradient_scores) - z.shape[1]
    G, L = np.empty((size, size)), np.zeros((size, size))
    mixed, of_mixed, unit, column = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    amount = np.empty(most_cells(first, last, cells.starts))
    inverse = np.empty((size, size))
    value = 0.0
    for k in range(first, last):
        value += 0.5 * np.sum(precision[k] * b[k] * b[k])
        value += add_votes(k, cells, d, z, theta[k], b[k], to, amount, mixed, G)
        for i in range(size):
            for j in range(i):
                G[j, i] = G[i, j]
        to.border[:, n_models:] += theta[k] ** 2 * G
        for i in range(size):
            G[i, i] += precision[k, i]
        factorise(G, 0, L)
        solve_lower(L, 0, mixed, of_mixed)
        to.D[k] -= of_mixed @ of_mixed
        for i in range(size):  # the inverse of L, column by column: votes need no divisions
            unit[:] = 0.0
            unit[i] = 1.0
            solve_lower(L, 0, unit, column)
            inverse[:, i] = column
        take_out_leans(k, cells.starts, d, z, theta[k], exact, inverse, of_mixed, amount, to.cross, to.leans)
    return value


@compiled
def add_votes(
    k: int, cells: CellArrays, d: Floats, z: Floats, ability: float, b: Floats, to: FeatureDerivatives, amount: Floats,
    mixed: Floats, G: Floats,
) -> float:  # fmt: skip
    """Add the votes of annotator k to the sums, set `mixed` to Σ w d z, the lower half of G to Σ w z zᵀ; return −ℓ_k.

    Leaves w of each cell in `cross`, and s − n p in the first row of `leans`. amount: room for as many cells.
    """
    begin, end = cells.starts[k], cells.starts[k + 1]
    size, n_models, count = len(b), len(to.gradient_scores) - len(b), end - begin
    d, n, s, amount = d[begin:end], cells.n[begin:end], cells.s[begin:end], amount[:count]
    residual, variance = to.leans[0, begin:end], to.cross[begin:end]
    fill_odds(begin, d, z, ability, b, residual, variance)
    value = lose(n, s, residual, variance)
    fill_residuals(n, s, residual, variance)
    for cell in range(count):
        first, second = pair_of(cells.model_a, cells.model_b, begin + cell)
        contribution, stiff = ability * residual[cell], ability * ability * variance[cell]
        to.gradient_scores[first] -= contribution
        to.gradient_scores[second] += contribution
        to.stiffness[first * n_models + second] += stiff
        for i in range(size):
            entry = stiff * z[begin + cell, i]
            to.border[i, first] += entry
            to.border[i, second] -= entry
    for i in range(size):
        column = z[begin:end, i]
        for cell in range(count):
            amount[cell] = variance[cell] * column[cell]
        to.gradient_scores[n_models + i] -= ability * dot(residual, column)
        mixed[i] = dot(amount, d)
        for j in range(i + 1):
            G[i, j] = dot(amount, z[begin:end, j])
    for cell in range(count):
        amount[cell] = variance[cell] * d[cell]
    to.gradient_abilities[k], to.D[k] = -dot(residual, d), dot(amount, d)
    return value


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
def take_out_leans(
    k: int, starts: Indices, d: Floats, z: Floats, ability: float, exact: bool, inverse: Floats, of_mixed: Floats,
    amount: Floats, cross: Floats, leans: Floats,
) -> None:  # fmt: skip
    """Set `cross` and `leans` of annotator k's cells from what `add_votes` left there.

    inverse: L⁻¹, L Lᵀ the leans' curvature. amount: room for as many cells.
    """
    begin, end, size = starts[k], starts[k + 1], len(of_mixed)
    along, cross, d = of_mixed @ inverse, cross[begin:end], d[begin:end]
    amount, residual = amount[: end - begin], leans[0, begin:end]
    for cell in range(len(d)):
        amount[cell] = ability * cross[cell]
        cross[cell] = amount[cell] * d[cell] - (residual[cell] if exact else 0.0)
    for back in range(size):
        i = size - 1 - back
        out, column = leans[i, begin:end], z[begin:end, i]
        for cell in range(len(d)):
            cross[cell] -= amount[cell] * along[i] * column[cell]
            out[cell] = amount[cell] * inverse[i, i] * column[cell]
        for j in range(i):
            column = z[begin:end, j]
            for cell in range(len(d)):
                out[cell] += amount[cell] * inverse[i, j] * column[cell]


@compiled
def sum_features(first: int, last: int, starts: Indices, weight: Floats, z: Floats, out: Floats) -> None:
    """Set out (n_annotators, n_features) of annotators first … last−1 to Σ weight·z over their cells."""
    for k in range(first, last):
        for i in range(z.shape[1]):
            out[k, i] = 0.0
        for cell in range(starts[k], starts[k + 1]):
            for i in range(z.shape[1]):
                out[k, i] += weight[cell] * z[cell, i]
