"""Compiled loops over cells for `influence`. Cells are sorted by annotator."""

import math

from app.rating.data.arrays import Floats, Indices, Ints
from app.rating.data.compiled import compiled


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
