"""Loops over cells for `influence` and `fragility`, compiled. Cells are sorted by annotator."""

import math

import numpy as np
from numpy.typing import NDArray

from app.rating.compiled import compiled
from app.rating.sums import Floats

Ints = NDArray[np.int32]
Starts = NDArray[np.int64]


@compiled
def own_curvature(
    first: int, last: int, starts: Starts, model_a: Ints, model_b: Ints, n: Floats, R: Floats, theta: Floats,
    cross: Floats, inverse_D: Floats, X: Floats, out: Floats,
) -> None:  # fmt: skip
    """Set row k of `out` to (A_k − B_k B_kᵀ/D_k) x, annotator k's part of the reduced Hessian, x row k of X."""
    for k in range(first, last):
        out[k] = 0.0
        along = 0.0
        for cell in range(starts[k], starts[k + 1]):
            along += cross[cell] * (X[k, model_a[cell]] - X[k, model_b[cell]])
        for cell in range(starts[k], starts[k + 1]):
            a, b = model_a[cell], model_b[cell]
            u = math.exp(-abs(theta[k] * (R[a] - R[b])))
            weight = n[cell] * theta[k] ** 2 * u / (1.0 + u) ** 2
            amount = weight * (X[k, a] - X[k, b]) - cross[cell] * along * inverse_D[k]
            out[k, a] += amount
            out[k, b] -= amount


@compiled
def hold_up(
    first: int, last: int, cell: Starts, annotator: Ints, model_a: Ints, model_b: Ints, residual: Floats,
    R: Floats, theta: Floats, y: Floats, q: Floats, out: Floats,
) -> None:  # fmt: skip
    """Set entries first … last−1 of `out` to residual·(θ(y_a − y_b) − d q_k), cell, annotator and models of each."""
    for entry in range(first, last):
        at = cell[entry]
        k, a, b = annotator[at], model_a[at], model_b[at]
        out[entry] = residual[entry] * (theta[k] * (y[a] - y[b]) - (R[a] - R[b]) * q[k])
