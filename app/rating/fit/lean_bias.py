"""Compiled loops for the first-order bias that errors of each annotator's (θ, b) cause; see `app.rating.fit.bias`."""

import math

import numpy as np

from app.rating.arrays import Floats
from app.rating.compiled import compiled
from app.rating.fit.kernels import dot, pair_of, squared_residual
from app.rating.fit.own_terms import most_cells
from app.rating.votes.cells import CellArrays


@compiled
def fill_moments(k: int, cells: CellArrays, d: Floats, z: Floats, at: Floats, v: Floats, p: Floats) -> int:
    """Set v (size, cells) to (d, z) of annotator k's cells, and p to their probabilities; return their number."""
    begin, end = cells.starts[k], cells.starts[k + 1]
    count = int(end - begin)
    v[0, :count] = d[begin:end]
    for i in range(1, len(v)):
        v[i, :count] = z[begin:end, i - 1]
    p[:count] = 0.0
    for i in range(len(v)):
        for cell in range(count):
            p[cell] -= at[i] * v[i, cell]
    for cell in range(count):
        p[cell] = 1.0 / (1.0 + math.exp(p[cell]))
    return count


@compiled
def sum_cubes(n: Floats, M: Floats, v: Floats, p: Floats, around: Floats, amount: Floats, out: Floats) -> None:
    """Set `around` to vᵀMv of each cell, M symmetric, and `out` to Σ n w′ (vᵀMv) v, w′ = p(1 − p)(1 − 2p)."""
    count = len(n)
    around[:count] = 0.0
    for i in range(len(v)):
        for j in range(i + 1):
            factor = M[i, j] if i == j else 2.0 * M[i, j]
            for cell in range(count):
                around[cell] += factor * v[i, cell] * v[j, cell]
    for cell in range(count):
        amount[cell] = n[cell] * p[cell] * (1.0 - p[cell]) * (1.0 - 2.0 * p[cell]) * around[cell]
    for i in range(len(v)):
        out[i] = dot(amount[:count], v[i, :count])


@compiled
def sum_skewness(
    first: int, last: int, cells: CellArrays, d: Floats, z: Floats, at: Floats, V: Floats, out: Floats
) -> None:  # fmt: skip
    """Set out (n_annotators, size) of annotators first … last−1 to the derivative of log det H by (θ, b), V = H⁻¹."""
    most = most_cells(first, last, cells.starts)
    v, room = np.empty((at.shape[1], most)), np.empty((3, most))
    for k in range(first, last):
        fill_moments(k, cells, d, z, at[k], v, room[0])
        sum_cubes(cells.n[cells.starts[k] : cells.starts[k + 1]], V[k], v, room[0], room[1], room[2], out[k])


@compiled
def add_shrinkage(V: Floats, precision: Floats, drawn: Floats, spread: Floats, bent: Floats) -> None:
    """Add to `spread` the part −V P b of the error δ; set `bent` to E δδᵀ + E bδᵀ + E δbᵀ, which bends p."""
    size = len(V)
    for i in range(size):
        for j in range(size):
            for m in range(1, size):
                spread[i, j] += V[i, m] * precision[m] ** 2 * drawn[m] * V[j, m]
    for i in range(size):
        for j in range(size):
            bent[i, j] = spread[i, j] - V[i, j] * precision[j] * drawn[j] - V[j, i] * precision[i] * drawn[i]


@compiled
def add_own_bias(
    first: int, last: int, cells: CellArrays, d: Floats, z: Floats, at: Floats, V: Floats, precision: Floats,
    drawn: Floats, beta: Floats, gradient: Floats,
) -> None:  # fmt: skip
    """Add the mean gradient by scores and features that errors of (θ_k, b_k) cause; see `app.rating.fit.bias`.

    The prior draws b, which has the variance `drawn` (n_features,) over the crowd, to 0: with P its `precision`
    (n_annotators, n_features), b errs by −V P b too, which goes with b and so with x.

    V (n_annotators, size, size): inverse curvature of (θ, b). Sets beta (n_annotators, size) to their own bias, at most
    half a standard error each.
    """
    starts, size, most = cells.starts, at.shape[1], most_cells(first, last, cells.starts)
    J, cubes, bent = np.empty((size, size)), np.empty(size), np.empty((size, size))
    own_precision, own_variance = np.zeros(size), np.zeros(size)
    own_variance[1:] = drawn
    v, room = np.empty((size, most)), np.empty((4, most))
    p, squared, around, amount = room[0], room[1], room[2], room[3]
    for k in range(first, last):
        count, begin = fill_moments(k, cells, d, z, at[k], v, p), starts[k]
        end = begin + count
        n, s, ties = cells.n[begin:end], cells.s[begin:end], cells.ties[begin:end]
        for cell in range(count):
            squared[cell] = squared_residual(p[cell], n[cell], s[cell], ties[cell])
        for i in range(size):
            amount[:count] = squared[:count] * v[i, :count]
            for j in range(i + 1):
                J[i, j] = J[j, i] = dot(amount[:count], v[j, :count])
        spread = V[k] @ J @ V[k]
        own_precision[1:] = precision[k]
        add_shrinkage(V[k], own_precision, own_variance, spread, bent)
        sum_cubes(n, bent, v, p, around, amount, cubes)
        moved = -0.5 * (V[k] @ cubes)
        for i in range(size):
            half = 0.5 * math.sqrt(max(spread[i, i], 0.0))
            beta[k, i] = min(max(moved[i], -half), half)
        own, direct = V[k, 0].copy(), at[k, 0] * beta[k] + spread[0]
        for cell in range(count):
            variance = n[cell] * p[cell] * (1.0 - p[cell])
            amount[cell] = -0.5 * at[k, 0] * variance * (1.0 - 2.0 * p[cell]) * around[cell]
            for i in range(size):
                amount[cell] += (squared[cell] * own[i] - variance * direct[i]) * v[i, cell]
            a, other = pair_of(cells.model_a, cells.model_b, begin + cell)
            gradient[a] += amount[cell]
            gradient[other] -= amount[cell]
        for i in range(1, size):
            gradient[len(gradient) - size + i] += dot(amount[:count], v[i, :count])
