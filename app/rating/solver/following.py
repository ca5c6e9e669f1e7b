"""Counts how many votes of each annotator follow a ranking, and how many oppose it."""

import numpy as np

from app.rating.data.arrays import Floats, Indices, Ints
from app.rating.data.compiled import compiled
from app.rating.data.threads import map_parts
from app.rating.solver.kernels import pair_of
from app.rating.solver.rows import CellRows


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
    map_parts(lambda part: follow(*part, rows.starts, c.model_a, c.model_b, c.n, c.s, R, along, against), rows.parts)
    return along, against


@compiled
def follow(
    first: int, last: int, starts: Indices, model_a: Ints, model_b: Ints, n: Floats, s: Floats, R: Floats,
    along: Floats, against: Floats,
) -> None:  # fmt: skip
    """Set along and against (n_annotators,) of annotators first … last−1."""
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
