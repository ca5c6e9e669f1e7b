from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from app.rating.data.arrays import Floats
from app.rating.data.threads import count_parts, map_parts
from app.rating.data.votes import Cells
from app.rating.solver.kernels import add_sparse_products, fill_rows

WORTH_A_THREAD = 50_000  # cells; for fewer, starting a thread costs more than it saves
CHUNK = 1024  # annotators whose rows are held at once
DENSE_GAIN = 16.0  # how much faster a multiplication is in a dense product than in a sparse one


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
    """

    def __init__(self, cells: Cells, number: int | None = None) -> None:
        self.cells = cells
        ends = np.arange(cells.n_annotators + 1, dtype=cells.annotator.dtype)  # another type would copy all cells
        self.starts = np.searchsorted(cells.annotator, ends).astype(np.int64)
        if number is None:
            table = min(cells.n_models**2, len(cells.n))  # size of a part's sums
            number = count_parts(len(cells.n), max(WORTH_A_THREAD, table))
        cuts = np.searchsorted(self.starts, np.linspace(0, len(cells.n), number + 1)[1:-1])
        edges = [0, *(int(cut) for cut in cuts), cells.n_annotators]
        self.parts = [(a, b) for a, b in pairwise(edges) if b > a] or [(0, 0)]
        per_row = np.minimum(2.0 * np.diff(self.starts), cells.n_models)
        self._dense = float((per_row**2).sum()) * DENSE_GAIN > len(per_row) * float(cells.n_models) ** 2

    def products(
        self, left: Floats, left_scale: Floats, right: Floats | None = None, right_scale: Floats | None = None
    ) -> Floats:
        """Σ_k row_kᵀ row'_k with row_k = scale_k · Σ_cells of k weight·(e_a − e_b), shape (n_models, n_models).

        Parameters
        ----------
        left, right : a weight per cell; right defaults to left
        left_scale, right_scale : a factor per annotator
        """
        right, right_scale = (left, left_scale) if right is None or right_scale is None else (right, right_scale)
        size = self.cells.n_models

        def accumulate(part: tuple[int, int]) -> Floats:
            total = np.zeros((size, size))
            if not self._dense:
                cells = self.cells
                add_sparse_products(
                    *part, self.starts, cells.model_a, cells.model_b, left, left_scale, right, right_scale, total
                )
                return total
            same = right is left and right_scale is left_scale
            for (lower, upper), rows in self.chunks(part, left, left_scale):
                other = rows if same else next(self.chunks((lower, upper), right, right_scale))[1]
                total += rows.T @ other
            return total

        first, *others = map_parts(accumulate, self.parts)
        result: Floats = sum(others, first)
        return result

    def chunks(self, part: tuple[int, int], weight: Floats, scale: Floats) -> Iterator[tuple[tuple[int, int], Floats]]:
        """Yield the dense rows of at most 1,024 annotators at a time; a yielded array is overwritten by the next."""
        c = self.cells
        buffer = np.empty((min(CHUNK, part[1] - part[0]), c.n_models))
        for lower in range(part[0], part[1], CHUNK):
            upper = min(lower + CHUNK, part[1])
            fill_rows(lower, upper, self.starts, c.model_a, c.model_b, weight, scale, buffer)
            yield (lower, upper), buffer[: upper - lower]
