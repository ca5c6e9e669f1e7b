from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.rating.sums import sum_by_key
from app.rating.votes import Cells


@dataclass(frozen=True)
class Compact:
    """Cells renumbered to the models and annotators that occur in them.

    Attributes
    ----------
    cells : with indices 0 … n−1 and no gaps
    models, annotators : the original index of each new one, ascending
    """

    cells: Cells
    models: NDArray[np.int64]
    annotators: NDArray[np.int64]


def compact(cells: Cells) -> Compact:
    """Drop the models and annotators that have no cell."""
    models = np.flatnonzero(_present(cells.n_models, cells.model_a, cells.model_b))
    annotators = np.flatnonzero(_present(cells.n_annotators, cells.annotator))
    new_model, new_annotator = _places(models, cells.n_models), _places(annotators, cells.n_annotators)
    renumbered = Cells(
        annotator=new_annotator[cells.annotator],
        model_a=new_model[cells.model_a],
        model_b=new_model[cells.model_b],
        n=cells.n,
        s=cells.s,
        ties=cells.ties,
        n_annotators=len(annotators),
        n_models=len(models),
    )
    return Compact(renumbered, models, annotators)


def _present(size: int, *indices: NDArray[np.int32]) -> NDArray[np.bool_]:
    present = np.zeros(size, dtype=bool)
    for index in indices:
        present[index] = True
    return present


def _places(kept: NDArray[np.int64], size: int) -> NDArray[np.int32]:
    place = np.empty(size, dtype=np.int32)
    place[kept] = np.arange(len(kept), dtype=np.int32)
    return place


def pool_annotators(cells: Cells) -> Cells:
    """Merge all annotators into one: the pair table, at most n_models² / 2 cells."""
    key = cells.model_a.astype(np.int64) * cells.n_models + cells.model_b
    pair, (n, s, ties) = sum_by_key(key, cells.n_models**2, cells.n, cells.s, cells.ties)
    return Cells(
        annotator=np.zeros(len(pair), dtype=np.int32),
        model_a=(pair // cells.n_models).astype(np.int32),
        model_b=(pair % cells.n_models).astype(np.int32),
        n=n,
        s=s,
        ties=ties,
        n_annotators=1,
        n_models=cells.n_models,
    )
