from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.fit.kernels import add_sparse_products, fill_rows
from app.rating.threads import count_parts, map_parts
from app.rating.votes.cells import Cells

WORTH_A_THREAD = 50_000  # cells; for fewer, starting a thread costs more than it saves
CHUNK = 1024  # annotators whose rows are held at once
DENSE_GAIN = 32.0  # how much faster a multiplication is in a dense product than in a sparse one


class CellRows:
    """Cells as one sparse row over the models for every annotator, in parts whose sums add up.

    Parameters
    ----------
    cells : sorted by annotator
    number : most parts; default by the number of cells

    Attributes
    ----------
    starts : index of each annotator's first cell, shape (n_annotators + 1,)
    parts : (first, last + 1) annotator of every part, about equally many cells each
    size : of a row: n_models, and in `FeatureRows` the features too
    z : what follows (e_a − e_b) in a row, shape (n_cells, size − n_models)
    """

    def __init__(self, cells: Cells, number: int | None = None) -> None:
        self.cells = cells
        self.starts = cells.starts
        if number is None:
            table = min(cells.n_models**2, len(cells.n))  # size of a part's sums
            number = count_parts(len(cells.n), max(WORTH_A_THREAD, table))
        cuts = np.searchsorted(self.starts, np.linspace(0, len(cells.n), number + 1)[1:-1])
        edges = [0, *(int(cut) for cut in cuts), cells.n_annotators]
        self.parts = [(a, b) for a, b in pairwise(edges) if b > a] or [(0, 0)]
        self.size, self.z = cells.n_models, np.empty((len(cells.n), 0), order="F")
        widest = np.minimum(2.0 * np.diff(self.starts), cells.n_models)
        self._dense = widest**2 * DENSE_GAIN > float(cells.n_models) ** 2

    def products(
        self,
        left: Floats,
        left_scale: Floats,
        right: Floats | None = None,
        right_scale: Floats | None = None,
        *,
        rough: bool = False,
    ) -> Floats:
        """Σ_k row_kᵀ row'_k with row_k = scale_k · Σ_cells of k weight·(e_a − e_b, z), shape (size, size).

        Parameters
        ----------
        left, right : a weight per cell; right defaults to left
        left_scale, right_scale : a factor per annotator; those of factor 0 cost nothing
        rough : multiply many rows in single precision, in half the time: errors of about 10⁻⁷. Rows must be below 10¹⁸
        """
        right, right_scale = (left, left_scale) if right is None or right_scale is None else (right, right_scale)
        size, same = self.size, right is left and right_scale is left_scale

        def accumulate(part: tuple[int, int]) -> Floats:
            c, total = self.cells, np.zeros((size, size))
            counted = part[0] + left_scale[slice(*part)].nonzero()[0]
            dense = self._dense[counted]
            gathered = counted[dense]
            if len(gathered) < len(counted):
                add_sparse_products(counted[~dense], c.arrays, self.z, left, left_scale, right, right_scale, total)
            number = np.float32 if rough and len(gathered) >= CHUNK else np.float64
            others = self._fill(gathered, right, right_scale, number)
            for rows in self._fill(gathered, left, left_scale, number):
                total += rows.T @ (rows if same else next(others))
            return total

        first, *others = map_parts(accumulate, self.parts)
        result: Floats = sum(others, first)
        return result

    def _fill(
        self, who: Indices, weight: Floats, scale: Floats, number: type[np.floating] = np.float64
    ) -> Iterator[Floats]:
        c = self.cells
        buffer = np.empty((min(CHUNK, len(who)), self.size), dtype=number)
        for place in range(0, len(who), CHUNK):
            some = who[place : place + CHUNK]
            fill_rows(some, c.arrays, self.z, weight, scale, buffer)
            yield buffer[: len(some)]
