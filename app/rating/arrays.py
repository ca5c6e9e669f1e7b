"""The array types of the mathematics, by the names that signatures use, and sums over equal indices."""

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Ints = NDArray[np.int32]
Indices = NDArray[np.int64]
AnyInts = NDArray[np.integer]

OUTCOME_VALUES = np.array([1.0, 0.0, 0.5, 0.5])
"""W by outcome code: model_a, model_b, tie, tie (bothbad)."""


TABLE_SIZE = 1 << 22  # keys below this are summed in a table, without sorting


def finite(value: float) -> float | None:
    """Return the number, None where it is infinite or NaN: JSON has neither."""
    return float(value) if math.isfinite(value) else None


def sum_by(index: AnyInts, weight: Floats, size: int) -> Floats:
    """Sum the weights of equal indices, shape (size,)."""
    return np.bincount(index, weight, size).astype(np.float64, copy=False)


def log_sum_exp(values: Floats) -> Floats:
    """Return log Σ exp(value) over the last axis, of finite values: several times faster than scipy's function."""
    top = values.max(axis=-1, keepdims=True)
    total: Floats = top[..., 0] + np.log(np.exp(values - top).sum(axis=-1))
    return total


def sum_by_key(key: Indices, size: int, *weights: Floats) -> tuple[Indices, list[Floats]]:
    """Return the distinct keys in [0, size), ascending, and the sum of each of the weights over equal keys."""
    if size > TABLE_SIZE:
        keys, row = np.unique(key, return_inverse=True)
        return keys, [sum_by(row, weight, len(keys)) for weight in weights]
    present = np.zeros(size, dtype=bool)
    present[key] = True
    keys = np.flatnonzero(present)
    return keys, [sum_by(key, weight, size)[keys] for weight in weights]
