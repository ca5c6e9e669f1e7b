from dataclasses import dataclass, replace

import numpy as np

from app.rating.arrays import Indices, Ints, Mask, sum_by_key
from app.rating.votes.cells import Cells, pair_cells


@dataclass(frozen=True)
class Compact:
    """Cells renumbered to the models and annotators that occur in them.

    Attributes
    ----------
    cells : with indices 0 … n−1 and no gaps
    models, annotators : the original index of each new one, ascending
    """

    cells: Cells
    models: Indices
    annotators: Indices


def compact(cells: Cells, present: Mask | None = None) -> Compact:
    """Drop the models and annotators that have no cell.

    Parameters
    ----------
    present : which models have a cell, shape (n_models,); default: found from the cells
    """
    if present is None:
        pairs = pool_annotators(cells)
        present = np.zeros(cells.n_models, dtype=bool)
        present[pairs.model_a] = present[pairs.model_b] = True
    models = np.flatnonzero(present)
    annotators = np.flatnonzero(np.diff(cells.starts))
    if len(models) == cells.n_models and len(annotators) == cells.n_annotators:
        return Compact(cells, models, annotators)
    model, annotator = find_places(models, cells.n_models), find_places(annotators, cells.n_annotators)
    renumbered = replace(
        cells,
        annotator=annotator[cells.annotator], model_a=model[cells.model_a], model_b=model[cells.model_b],
        n_annotators=len(annotators), n_models=len(models),
    )  # fmt: skip
    return Compact(renumbered, models, annotators)


def find_places(kept: Indices, size: int) -> Ints:
    """Return the place of each of 0 … size−1 among those kept, −1 for the others, shape (size,)."""
    place = np.full(size, -1, dtype=np.int32)
    place[kept] = np.arange(len(kept), dtype=np.int32)
    return place


def pool_annotators(cells: Cells) -> Cells:
    """Merge all annotators into one: the pair table, at most n_models² / 2 cells."""
    if cells.n_annotators == 1:
        return cells
    key = cells.model_a.astype(np.int64) * cells.n_models + cells.model_b
    pair, (n, s, ties) = sum_by_key(key, cells.n_models**2, cells.n, cells.s, cells.ties)
    return pair_cells(pair, n, s, ties, cells.n_models)
