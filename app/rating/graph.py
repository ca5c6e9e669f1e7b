from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from app.rating.sums import distinct, sum_by
from app.rating.votes import Cells


class Components(NamedTuple):
    """Connected components of the comparison graph: their number and each model's label (−1: no counted vote)."""

    number: int
    label: NDArray[np.int64]


def find_components(cells: Cells) -> Components:
    """Label the connected components of the graph whose edges are the compared pairs, most votes first.

    Ties in the number of votes go to the component with the lowest model index. O(n_cells).
    """
    graph = _edges(cells.model_a, cells.model_b, cells.n_models)
    _, raw = connected_components(graph, directed=False)
    votes = _votes_by_model(cells)
    used = votes > 0
    if not used.any():
        return Components(0, np.full(cells.n_models, -1, dtype=np.int64))
    weight = np.bincount(raw, votes)
    first = np.full(len(weight), cells.n_models)
    np.minimum.at(first, raw, np.arange(cells.n_models))
    order = np.lexsort((first, -weight))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return Components(len(np.unique(raw[used])), np.where(used, place[raw], -1))


def find_cores(cells: Cells, components: Components, sign: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Mark the models whose scores have a finite maximum, given the sign of every annotator's ability.

    An edge runs from winner to loser (both ways for a tie); the votes of an annotator with a negative ability count
    reversed, those of one with ability 0 not at all. The maximum over R is finite exactly within a strongly
    connected class (Ford 1957); of each component the class with most models is kept (then most votes, then the
    lowest index), and a class of one model does not count.

    Parameters
    ----------
    sign : shape (n_annotators,); only its sign is used.

    Returns
    -------
    bool array, shape (n_models,)
    """
    direction = np.sign(sign[cells.annotator])
    a_won = np.where(direction > 0, cells.s > 0, cells.s < cells.n) & (direction != 0)
    b_won = np.where(direction > 0, cells.s < cells.n, cells.s > 0) & (direction != 0)
    winner = np.concatenate([cells.model_a[a_won], cells.model_b[b_won]])
    loser = np.concatenate([cells.model_b[a_won], cells.model_a[b_won]])
    _, strong = connected_components(_edges(winner, loser, cells.n_models), connection="strong")
    size = np.bincount(strong)
    votes = sum_by(strong, _votes_by_model(cells), len(size))
    core = np.zeros(cells.n_models, dtype=bool)
    for component in range(components.number):
        members = np.flatnonzero(components.label == component)
        classes = strong[members]
        best = np.lexsort((members, -votes[classes], -size[classes]))[0]
        if size[classes[best]] > 1:
            core |= strong == classes[best]
    return core


def _votes_by_model(cells: Cells) -> NDArray[np.float64]:
    a = sum_by(cells.model_a, cells.n, cells.n_models)
    return a + sum_by(cells.model_b, cells.n, cells.n_models)


def _edges(start: NDArray[np.int32], end: NDArray[np.int32], size: int) -> csr_array:
    pair = distinct(start.astype(np.int64) * size + end, size * size)
    return coo_array((np.ones(len(pair), dtype=np.int8), (pair // size, pair % size)), shape=(size, size)).tocsr()
