"""Compiled loops over cells for `influence` and `fragility`. Cells are sorted by annotator."""

import math

import numpy as np
from numpy.typing import NDArray

from app.rating.data.arrays import Floats, Indices, Ints
from app.rating.data.compiled import compiled

Pairs = NDArray[np.int16]


@compiled
def own_curvature(
    first: int, last: int, starts: Indices, model_a: Ints, model_b: Ints, n: Floats, R: Floats, theta: Floats,
    cross: Floats, inverse_D: Floats, X: Floats, out: Floats,
) -> None:  # fmt: skip
    """Set row k − first of `out` to (A_k − B_k B_kᵀ/D_k) x, x row k − first of X, for annotators first … last−1.

    The matrix is annotator k's part of the reduced Hessian.
    """
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
def influence_by_vote(
    first: int, last: int, cell: Indices, annotator: Ints, model_a: Ints, model_b: Ints, residual: Floats,
    R: Floats, theta: Floats, y: Floats, q: Floats, out: Floats,
) -> None:  # fmt: skip
    """Set entries first … last−1 of `out` to residual·(θ(y_a − y_b) − d q_k), k, a and b those of the entry's cell."""
    for entry in range(first, last):
        at = cell[entry]
        k, a, b = annotator[at], model_a[at], model_b[at]
        out[entry] = residual[entry] * (theta[k] * (y[a] - y[b]) - (R[a] - R[b]) * q[k])


@compiled
def times_columns(
    first: int, last: int, starts: Indices, model_a: Ints, model_b: Ints, weight: Floats, Y: Floats, out: Floats
) -> None:
    """Set row k of `out` to Σ weight·(Y_a − Y_b) over k's cells, Y_a a row of Y, for annotators first … last−1."""
    columns = Y.shape[1]
    for k in range(first, last):
        row = out[k]
        row[:] = 0.0
        for cell in range(starts[k], starts[k + 1]):
            y_a, y_b, amount = Y[model_a[cell]], Y[model_b[cell]], weight[cell]
            for pair in range(columns):
                row[pair] += amount * (y_a[pair] - y_b[pair])


@compiled
def collect_strong(
    first: int, last: int, stride: int, annotator: Ints, model_a: Ints, model_b: Ints, n: Floats, s: Floats,
    ties: Floats, R: Floats, theta: Floats, Y: Floats, Q: Floats, above: Floats,
    total: Floats, pair: Pairs, influence: Floats, size: Floats,
) -> int:  # fmt: skip
    """Collect the vote groups in every stride-th cell of first … last−1 with an influence above `above` on some pair.

    The column of a pair in Y (n_models, n_pairs) and Q (n_annotators, n_pairs) is y and q of `influence_by_vote`. Adds
    the positive influences of all votes on a pair to its `total`. Sets pair, influence and size (number of votes) of
    the groups found, while there is room, and returns how many there are.
    """
    n_pairs, found = Y.shape[1], 0
    moved = np.empty(n_pairs)
    for cell in range(first, last, stride):
        k, a, b = annotator[cell], model_a[cell], model_b[cell]
        y_a, y_b, q, ability, d = Y[a], Y[b], Q[k], theta[k], R[a] - R[b]
        for p in range(n_pairs):
            moved[p] = ability * (y_a[p] - y_b[p]) - d * q[p]
        chance = 1.0 / (1.0 + math.exp(-ability * d))
        won = s[cell] - ties[cell] / 2.0
        for kind in range(3):
            count = won if kind == 0 else ties[cell] if kind == 1 else n[cell] - won - ties[cell]
            if count <= 0.0:
                continue
            residual = 1.0 - kind / 2.0 - chance
            for p in range(n_pairs):
                total[p] += count * max(residual * moved[p], 0.0)
            for p in range(n_pairs):
                if residual * moved[p] > above[p]:
                    if found < len(pair):
                        pair[found], influence[found], size[found] = p, residual * moved[p], count
                    found += 1
    return found
