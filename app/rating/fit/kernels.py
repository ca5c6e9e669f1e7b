"""Compiled loops over cells. Cells are sorted by annotator; `starts[k]` is annotator k's first cell."""

from functools import partial
from typing import NamedTuple

import numpy as np

from app.rating.arrays import Floats, Indices, Ints
from app.rating.compiled import compiled
from app.rating.votes.cells import CellArrays

ANY_ORDER = frozenset({"reassoc", "nsz", "contract"})  # of a sum, so that it runs on the processor's vectors
PRODUCT_LIMIT = 1e290  # below which one more factor of at most 2 cannot overflow


@compiled
def pair_of(model_a: Ints, model_b: Ints, cell: int) -> tuple[np.uint32, np.uint32]:
    """Return the models of a cell, unsigned: an index that could be negative costs a branch."""
    return np.uint32(model_a[cell]), np.uint32(model_b[cell])


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
