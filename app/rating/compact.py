from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.rating.sums import sum_by
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
    models = np.unique(np.concatenate([cells.model_a, cells.model_b])).astype(np.int64)
    annotators = np.unique(cells.annotator).astype(np.int64)
    renumbered = Cells(
        annotator=np.searchsorted(annotators, cells.annotator).astype(np.int32),
        model_a=np.searchsorted(models, cells.model_a).astype(np.int32),
        model_b=np.searchsorted(models, cells.model_b).astype(np.int32),
        n=cells.n, s=cells.s, ties=cells.ties, n_annotators=len(annotators), n_models=len(models),
    )  # fmt: skip
    return Compact(renumbered, models, annotators)


def pool_annotators(cells: Cells) -> Cells:
    """Merge all annotators into one: the pair table, at most n_models² / 2 cells."""
    pair, row = np.unique(cells.model_a.astype(np.int64) * cells.n_models + cells.model_b, return_inverse=True)
    n, s, ties = (sum_by(row, x, len(pair)) for x in (cells.n, cells.s, cells.ties))
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
