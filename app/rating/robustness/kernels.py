"""Compiled loops over cells for `fewest`. Cells are sorted by annotator."""

import math

import numpy as np

from app.rating.data.arrays import Floats, Indices, Ints
from app.rating.data.compiled import compiled


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
def collect_largest(
    first: int, last: int, annotator: Ints, model_a: Ints, model_b: Ints, possible: Floats, residual: Floats,
    expected: float, weight: Floats, R: Floats, theta: Floats, Y: Floats, Q: Floats, gap: Floats, influence: Floats,
    size: Floats,
) -> None:  # fmt: skip
    """Set rows first … last−1 of influence and size to the largest influences of a vote on a pair, and their numbers.

    A change of a vote of a kind, of which `possible` (n_cells, 3) counts how many there are, takes residual[kind] +
    expected·p from the residual.

    The column of a pair in Y (n_models, n_pairs) and Q (n_annotators, n_pairs) is y and q of `influence_by_vote`. A row
    is a heap, the smallest influence first, with zeros after the last. It holds no more groups of votes than exceed the
    pair's gap together, and is 0 where there is no room for so many.
    """
    room, pairs = influence.shape[1], last - first
    moved, least, total = np.empty(pairs), np.zeros(pairs), np.zeros(pairs)
    used = np.zeros(pairs, dtype=np.int64)
    for cell in range(len(annotator)):
        k, a, b = annotator[cell], model_a[cell], model_b[cell]
        y_a, y_b, q, ability, d = Y[a, first:last], Y[b, first:last], Q[k, first:last], theta[k], R[a] - R[b]
        for p in range(pairs):
            moved[p] = weight[cell] * (ability * (y_a[p] - y_b[p]) - d * q[p])
        chance = 1.0 / (1.0 + math.exp(-ability * d))
        for kind in range(3):
            count = possible[cell, kind]
            if count <= 0.0:
                continue
            taken, found = residual[kind] + expected * chance, 0
            for p in range(pairs):  # without a branch: nearly always none is found
                found += taken * moved[p] > least[p]
            for p in range(pairs if found else 0):
                value = taken * moved[p]
                if value <= least[p]:
                    continue
                values, sizes = influence[first + p], size[first + p]
                used[p], total[p] = keep(values, sizes, used[p], total[p], gap[first + p], value, count)
                least[p] = values[0] if used[p] == room or total[p] > gap[first + p] else 0.0
    for p in range(pairs):
        if total[p] <= gap[first + p]:
            influence[first + p], size[first + p] = 0.0, 0.0


@compiled
def keep(
    values: Floats, sizes: Floats, used: int, total: float, gap: float, value: float, count: float
) -> tuple[int, float]:
    """Put an entry into a heap, and take out what is not needed to exceed the gap; return its length and its total."""
    if used == len(values):
        total -= values[0] * sizes[0]
        used -= 1
        pop(values, sizes, used)
    push(values, sizes, used, value, count)
    total += value * count
    used += 1
    while used > 1 and total - values[0] * sizes[0] > gap:
        total -= values[0] * sizes[0]
        used -= 1
        pop(values, sizes, used)
    return used, total


@compiled
def push(values: Floats, sizes: Floats, used: int, value: float, count: float) -> None:
    """Add an entry to a heap of `used` entries, the smallest influence first."""
    at = used
    while at > 0 and values[(at - 1) // 2] > value:
        values[at], sizes[at] = values[(at - 1) // 2], sizes[(at - 1) // 2]
        at = (at - 1) // 2
    values[at], sizes[at] = value, count


@compiled
def pop(values: Floats, sizes: Floats, left: int) -> None:
    """Take the first entry out of a heap of left + 1 entries."""
    value, count, at = values[left], sizes[left], 0
    values[left], sizes[left] = 0.0, 0.0
    while 2 * at + 1 < left:
        child = 2 * at + 1
        if child + 1 < left and values[child + 1] < values[child]:
            child += 1
        if values[child] >= value:
            break
        values[at], sizes[at] = values[child], sizes[child]
        at = child
    if left > 0:
        values[at], sizes[at] = value, count
