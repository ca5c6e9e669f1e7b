from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.compiled import compiled
from app.rating.fit.kernels import add_by_model, add_sparse_products, fill_distances, fill_rows, pair_of, times_rows
from app.rating.threads import count_parts, map_parts
from app.rating.votes.cells import CellArrays, Cells

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

    def exponentials(self, R: Floats, theta: Floats, out: Floats) -> Floats:
        """Set `out`, shape (n_cells,), to e^−|x| with x = θ_k (R_a − R_b), and return it.

        numpy takes many exponentials at once, several times faster than a compiled loop takes them one by one.
        """
        c = self.cells

        def fill(part: tuple[int, int]) -> None:
            fill_distances(*part, c.arrays, R, theta, out)
            here = out[self.starts[part[0]] : self.starts[part[1]]]
            np.exp(here, out=here)

        map_parts(fill, self.parts)
        return out

    def by_model(self, weight: Floats, *scales: Floats) -> Floats:
        """Return Σ_cells scale_k·weight·(e_a − e_b) for each scale, shape (scales, n_models).

        Parameters
        ----------
        weight : shape (n_cells,)
        scales : of shape (n_annotators,) each
        """
        c, columns = self.cells, np.array(scales)

        def accumulate(part: tuple[int, int]) -> Floats:
            total = np.zeros((len(scales), c.n_models))
            add_by_model(*part, c.arrays, weight, columns, total)
            return total

        first, *others = map_parts(accumulate, self.parts)
        total: Floats = sum(others, first)
        return total

    def times(self, weight: Floats, vector: Floats) -> Floats:
        """Return each annotator's Σ weight·(e_a − e_b) times a vector over models, shape (n_annotators,)."""
        c, out = self.cells, np.empty(self.cells.n_annotators)
        map_parts(lambda part: times_rows(*part, c.arrays, weight, vector, out), self.parts)
        return out

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

    def chunks(self, part: tuple[int, int], weight: Floats, scale: Floats) -> Iterator[tuple[tuple[int, int], Floats]]:
        """Yield the dense rows of at most 1,024 annotators at a time; a yielded array is overwritten by the next."""
        who = np.arange(*part)
        for place, rows in enumerate(self._fill(who, weight, scale)):
            lower = part[0] + place * CHUNK
            yield (lower, lower + len(rows)), rows

    def _fill(
        self, who: Indices, weight: Floats, scale: Floats, number: type[np.floating] = np.float64
    ) -> Iterator[Floats]:
        c = self.cells
        buffer = np.empty((min(CHUNK, len(who)), self.size), dtype=number)
        for place in range(0, len(who), CHUNK):
            some = who[place : place + CHUNK]
            fill_rows(some, c.arrays, self.z, weight, scale, buffer)
            yield buffer[: len(some)]


def count_following(rows: CellRows, R: Floats) -> tuple[Floats, Floats]:
    """Count the votes along the ranking R and those against it; a tie is half of each.

    Parameters
    ----------
    rows : the annotators' votes; votes between models of equal R do not count
    R : shape (n_models,)

    Returns
    -------
    along, against : shape (n_annotators,)
    """
    c, (along, against) = rows.cells, np.zeros((2, rows.cells.n_annotators))
    map_parts(lambda part: follow(*part, c.arrays, R, along, against), rows.parts)
    return along, against


@compiled
def follow(
    first: int, last: int, cells: CellArrays, R: Floats,
    along: Floats, against: Floats,
) -> None:  # fmt: skip
    """Set along and against (n_annotators,) of annotators first … last−1."""
    starts, model_a, model_b, n, s = cells.starts, cells.model_a, cells.model_b, cells.n, cells.s
    for k in range(first, last):
        total, followed = 0.0, 0.0
        for cell in range(starts[k], starts[k + 1]):
            a, b = pair_of(model_a, model_b, cell)
            d = R[a] - R[b]
            counted = n[cell] if d != 0.0 else 0.0  # conditional values compile to no branch
            won = s[cell] if d > 0.0 else n[cell] - s[cell]
            total += counted
            followed += won if d != 0.0 else 0.0
        along[k], against[k] = followed, total - followed
