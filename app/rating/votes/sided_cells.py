"""Cells that keep the side on which a model was shown."""

from dataclasses import dataclass, replace

import numpy as np

from app.rating.arrays import AnyInts, Floats, Mask
from app.rating.votes.cells import Cells, aggregate


@dataclass(frozen=True)
class SidedCells:
    """Cells with the side of their first model: one row for each (annotator, pair, side).

    Attributes
    ----------
    cells : sorted by annotator
    side : 1 where model_a was shown on the left, −1 on the right, 0 where it is not known, shape (n_cells,)
    """

    cells: Cells
    side: Floats

    @classmethod
    def unknown(cls, cells: Cells) -> "SidedCells":
        """Return cells whose sides are not known."""
        return cls(cells, np.zeros(len(cells.n)))

    @classmethod
    def of_votes(
        cls,
        annotator: AnyInts,
        left: AnyInts,
        right: AnyInts,
        outcome: Floats,
        *,
        n_annotators: int,
        n_models: int,
        weight: Floats | None = None,
    ) -> "SidedCells":
        """Collapse votes to cells, apart by side.

        Parameters
        ----------
        annotator, left, right, outcome, weight : as for `app.rating.votes.cells.aggregate`; outcome is W for the left
            model
        """
        on_left = np.asarray(left) < np.asarray(right)
        twice = 2 * np.asarray(annotator, dtype=np.int64) + on_left  # each annotator as two, one for each side
        apart = aggregate(twice, left, right, outcome, n_annotators=2 * n_annotators, n_models=n_models, weight=weight)
        side = np.where(apart.annotator & 1, 1.0, -1.0)
        return cls(replace(apart, annotator=apart.annotator >> 1, n_annotators=n_annotators), side)

    @property
    def known(self) -> bool:
        """Whether the sides are known."""
        return bool(self.side.any())

    def where(self, keep: Mask) -> "SidedCells":
        """Return the cells for which `keep`, shape (n_cells,), is true."""
        return self if keep.all() else SidedCells(self.cells.where(keep), self.side[keep])
