"""Compiled loops for the first-order bias that errors of each annotator's (θ, b) cause; see `app.rating.fit.bias`."""

import math

import numpy as np

from app.rating.arrays import Floats
from app.rating.compiled import compiled
from app.rating.fit.kernels import pair_of, squared_residual
from app.rating.votes.cells import CellArrays


@compiled
def multiply(V: Floats, v: Floats, out: Floats) -> float:
    """Set `out` to V v, of a few numbers, and return vᵀV v."""
    total = 0.0
    for i in range(len(v)):
        entry = 0.0
        for j in range(len(v)):
            entry += V[i, j] * v[j]
        out[i] = entry
        total += v[i] * entry
    return total


@compiled
def add_skewness(
    k: int, cells: CellArrays, d: Floats, z: Floats, at: Floats, V: Floats, v: Floats, out: Floats
) -> None:  # fmt: skip
    """Set `out` to Σ n w′ (vᵀVv) v of annotator k, v = (d, z) and w′ the derivative of p(1 − p)."""
    out[:] = 0.0
    moved = np.empty(len(v))
    for cell in range(cells.starts[k], cells.starts[k + 1]):
        _, _, skew = _moments(at, d, z, cell, v)
        amount = cells.n[cell] * skew * multiply(V, v, moved)
        for i in range(len(v)):
            out[i] += amount * v[i]


@compiled
def sum_skewness(
    first: int, last: int, cells: CellArrays, d: Floats, z: Floats, at: Floats, V: Floats, out: Floats
) -> None:  # fmt: skip
    """Set out (n_annotators, size) of annotators first … last−1 to the derivative of log det H by (θ, b), V = H⁻¹."""
    v = np.empty(at.shape[1])
    for k in range(first, last):
        add_skewness(k, cells, d, z, at[k], V[k], v, out[k])


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
    starts, model_a, model_b, n, s, ties = cells.starts, cells.model_a, cells.model_b, cells.n, cells.s, cells.ties
    size, n_models = at.shape[1], len(gradient) - z.shape[1]
    v, J, cubes, moved = np.empty(size), np.empty((size, size)), np.empty(size), np.empty(size)
    bent, own_precision, own_variance = np.empty((size, size)), np.zeros(size), np.zeros(size)
    own_variance[1:] = drawn
    for k in range(first, last):
        J[:] = 0.0
        for cell in range(starts[k], starts[k + 1]):
            p, _, _ = _moments(at[k], d, z, cell, v)
            squared = squared_residual(p, n[cell], s[cell], ties[cell])
            for i in range(size):
                for j in range(size):
                    J[i, j] += squared * v[i] * v[j]
        spread = V[k] @ J @ V[k]
        own_precision[1:] = precision[k]
        add_shrinkage(V[k], own_precision, own_variance, spread, bent)
        add_skewness(k, cells, d, z, at[k], bent, v, cubes)
        moved[:] = -0.5 * (V[k] @ cubes)
        for i in range(size):
            most = 0.5 * math.sqrt(max(spread[i, i], 0.0))
            beta[k, i] = min(max(moved[i], -most), most)
        for cell in range(starts[k], starts[k + 1]):
            p, variance, skew = _moments(at[k], d, z, cell, v)
            squared = squared_residual(p, n[cell], s[cell], ties[cell])
            around = multiply(bent, v, cubes)
            multiply(spread, v, cubes)
            own, shift = 0.0, 0.0
            for i in range(size):
                own += V[k, 0, i] * v[i]
                shift += beta[k, i] * v[i]
            amount = squared * own - n[cell] * (
                variance * (at[k, 0] * shift + cubes[0]) + 0.5 * at[k, 0] * skew * around
            )
            a, other = pair_of(model_a, model_b, cell)
            gradient[a] += amount
            gradient[other] -= amount
            for i in range(size - 1):
                gradient[n_models + i] += amount * z[cell, i]


@compiled
def _moments(at: Floats, d: Floats, z: Floats, cell: int, v: Floats) -> tuple[float, float, float]:
    """Set v to (d, z) of the cell; return p, p(1 − p) and p(1 − p)(1 − 2p)."""
    v[0], x = d[cell], at[0] * d[cell]
    for i in range(1, len(v)):
        v[i] = z[cell, i - 1]
        x += at[i] * v[i]
    p = 1.0 / (1.0 + math.exp(-x))
    return p, p * (1.0 - p), p * (1.0 - p) * (1.0 - 2.0 * p)
