"""Votes as clusters: what they add to the errors where annotators are given."""

from collections.abc import Iterable

import numpy as np
from scipy.special import expit

from app.rating.arrays import Floats
from app.rating.votes.cells import Cells


def squared_residuals(cells: Cells, x: Floats) -> Floats:
    """Return Σ (W − p)² over the votes of each cell, p = σ(x), x of shape (n_cells,)."""
    p = expit(x)
    squared: Floats = cells.wins_a * (1.0 - p) ** 2 + cells.ties * (0.5 - p) ** 2 + cells.wins_b * p**2
    return squared


def sum_by_vote(
    cells: Cells, R: Floats, squares: Floats, pull: Floats, each_moved: Iterable[tuple[int, int, Floats]]
) -> Floats:
    """Return Σ r² v v′ over the votes, v = pull (e_a − e_b) + d c_k what a unit of a vote's residual r adds.

    Parameters
    ----------
    squares : Σ r² of each cell, shape (n_cells,)
    pull : shape (n_cells,)
    each_moved : first, last + 1, and rows c_k of some annotators: what a unit of dℓ_k/dθ adds, as the ability moves
    """
    d, size = R[cells.model_a] - R[cells.model_b], len(R)
    meat = np.zeros((size, size))
    for first, last, moved in each_moved:
        here = slice(*cells.starts[[first, last]])
        own = cells.annotator[here] - first
        along, square = np.zeros((last - first, size)), np.bincount(own, squares[here] * d[here] ** 2, last - first)
        amount = squares[here] * pull[here] * d[here]
        np.add.at(along, (own, cells.model_a[here]), amount)
        np.add.at(along, (own, cells.model_b[here]), -amount)
        crossed = along.T @ moved
        meat += crossed + crossed.T + (moved * square[:, None]).T @ moved
    amount = squares * pull**2
    for i, j, sign in ((0, 0, 1.0), (1, 1, 1.0), (0, 1, -1.0), (1, 0, -1.0)):
        ends = cells.model_a, cells.model_b
        np.add.at(meat, (ends[i], ends[j]), sign * amount)
    return meat
