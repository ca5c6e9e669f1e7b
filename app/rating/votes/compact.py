from dataclasses import dataclass, replace

import numpy as np

from app.rating.arrays import TABLE_SIZE, Floats, Indices, Ints, Mask, sum_by_key
from app.rating.threads import map_parts, split
from app.rating.votes.cells import WORTH_A_THREAD, Cells, pair_cells
from app.rating.votes.tally import tabulate_cells


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
    new_model, new_annotator = _places(models, cells.n_models), _places(annotators, cells.n_annotators)
    renumbered = replace(
        cells,
        annotator=new_annotator[cells.annotator],
        model_a=new_model[cells.model_a],
        model_b=new_model[cells.model_b],
        n_annotators=len(annotators),
        n_models=len(models),
    )
    return Compact(renumbered, models, annotators)


def _places(kept: Indices, size: int) -> Ints:
    place = np.empty(size, dtype=np.int32)
    place[kept] = np.arange(len(kept), dtype=np.int32)
    return place


def pool_annotators(cells: Cells, share: Floats | None = None) -> Cells:
    """Merge all annotators into one: the pair table, at most n_models² / 2 cells.

    Parameters
    ----------
    share : factor on the votes of each cell, shape (n_cells,); default 1
    """
    if cells.n_annotators == 1 and share is None:
        return cells
    size = cells.n_models
    if size**2 > TABLE_SIZE:
        key = cells.model_a.astype(np.int64) * size + cells.model_b
        sums = [x if share is None else share * x for x in (cells.n, cells.s, cells.ties)]
        pair, (n, s, ties) = sum_by_key(key, size**2, *sums)
        return pair_cells(pair, n, s, ties, size)
    factor = np.empty(0) if share is None else share

    def tabulate(part: tuple[int, int]) -> Floats:
        table = np.zeros((size**2, 3))
        tabulate_cells(*part, cells.model_a, cells.model_b, cells.n, cells.s, cells.ties, factor, size, table)
        return table

    first, *others = map_parts(tabulate, split(len(cells.n), max(WORTH_A_THREAD, size**2)))
    table = sum(others, first)
    pair = np.flatnonzero(table[:, 0])
    n, s, ties = table[pair].T.copy()
    return pair_cells(pair, n, s, ties, size)
