from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.rating.arrays import TABLE_SIZE, Floats, Indices, Ints, Mask, sum_by
from app.rating.compiled import compiled
from app.rating.threads import map_parts, split
from app.rating.votes.cells import WORTH_A_THREAD, Cells
from app.rating.votes.compact import pool_annotators

FEW_MODELS = 128


class Components(NamedTuple):
    """Connected components of the comparison graph.

    Attributes
    ----------
    number : number of components
    label : component of each model; −1 for a model without a counted vote
    votes : counted votes on each model
    """

    number: int
    label: Indices
    votes: Floats


def find_components(cells: Cells) -> Components:
    """Label the connected components of the graph whose edges are the compared pairs.

    The component with most votes is 0; equal components are ordered by their lowest model index. O(n_cells). The cells
    or their pair table give the same result.
    """
    lowest, pairs = np.arange(cells.n_models), pool_annotators(cells)
    join(pairs.model_a, pairs.model_b, lowest)
    votes = _votes_by_model(pairs)
    roots = np.flatnonzero((lowest == np.arange(cells.n_models)) & (votes > 0))
    weight = sum_by(lowest, votes, cells.n_models)[roots]
    label = np.full(cells.n_models, -1, dtype=np.int64)
    label[roots[np.lexsort((roots, -weight))]] = np.arange(len(roots))
    return Components(len(roots), label[lowest], votes)


def find_identified(cells: Cells, components: Components, sign: NDArray[np.floating]) -> Mask:
    """Mark the models whose scores have a finite maximum, given the sign of every annotator's ability.

    An edge runs from winner to loser, both ways for a tie. Votes of an annotator with a negative ability count
    reversed; votes of an annotator with ability 0 do not count. The maximum over R is finite exactly within a strongly
    connected class (Ford 1957). Each component keeps its class with most models (then most votes, then the lowest
    index); a class of one model does not count.

    Parameters
    ----------
    sign : the abilities, or anything with their signs, shape (n_annotators,)

    Returns
    -------
    bool array, shape (n_models,)
    """
    strong = strong_classes(cells, sign)
    size = np.bincount(strong)
    votes = sum_by(strong, components.votes, len(size))
    model = np.arange(cells.n_models)
    order = np.lexsort((model, -votes[strong], -size[strong], components.label))
    _, first = np.unique(components.label[order], return_index=True)
    best = order[first]  # one model of the best class of every component
    best = best[(components.label[best] >= 0) & (size[strong[best]] > 1)]
    kept = np.zeros(len(size), dtype=bool)
    kept[strong[best]] = True
    identified: Mask = kept[strong]
    return identified


def strong_classes(cells: Cells, sign: NDArray[np.floating]) -> Indices:
    """Label the strongly connected classes of the graph of wins (see `find_identified`), shape (n_models,)."""
    winner, loser = _wins(cells, np.asarray(sign, dtype=np.float64))
    if cells.n_models <= FEW_MODELS:
        return _classes_of_few(winner, loser, cells.n_models)
    # a tenth of a second to import, and most arenas have few models
    from scipy.sparse import csr_array  # noqa: PLC0415
    from scipy.sparse.csgraph import connected_components  # noqa: PLC0415

    ends = np.cumsum(np.bincount(winner, minlength=cells.n_models))
    graph = csr_array((np.ones(len(winner), dtype=np.int8), loser, np.append(0, ends)), shape=(cells.n_models,) * 2)
    strong: Indices = connected_components(graph, connection="strong")[1].astype(np.int64)
    return strong


def _classes_of_few(winner: Indices, loser: Indices, n_models: int) -> Indices:
    """Label the strongly connected classes of a small graph: two models are in one if each reaches the other."""
    reaches = np.eye(n_models, dtype=np.float32)
    reaches[winner, loser] = 1.0
    for _ in range(n_models.bit_length()):  # each doubles the length of the paths
        reaches = np.minimum(reaches @ reaches, 1.0)
    lowest = np.argmax(reaches * reaches.T, axis=1)  # the lowest model of each model's class
    strong: Indices = np.unique(lowest, return_inverse=True)[1].astype(np.int64)
    return strong


def _votes_by_model(cells: Cells) -> Floats:
    a = sum_by(cells.model_a, cells.n, cells.n_models)
    return a + sum_by(cells.model_b, cells.n, cells.n_models)


def _wins(cells: Cells, sign: Floats) -> tuple[Indices, Indices]:
    """Return winner and loser of every edge, each edge once, in ascending order."""
    size = cells.n_models
    if size**2 > TABLE_SIZE:
        direction = sign[cells.annotator]
        a_won = np.where(direction > 0, cells.s > 0, cells.s < cells.n) & (direction != 0)
        b_won = np.where(direction > 0, cells.s < cells.n, cells.s > 0) & (direction != 0)
        winner = np.concatenate([cells.model_a[a_won], cells.model_b[b_won]]).astype(np.int64)
        loser = np.concatenate([cells.model_b[a_won], cells.model_a[b_won]]).astype(np.int64)
        edge = np.unique(winner * size + loser)
    else:

        def mark(part: tuple[int, int]) -> Mask:
            won = np.zeros(size * size, dtype=np.bool_)
            mark_wins(*part, cells.model_a, cells.model_b, cells.annotator, cells.n, cells.s, sign, size, won)
            return won

        edge = np.flatnonzero(np.logical_or.reduce(map_parts(mark, split(len(cells.n), WORTH_A_THREAD))))
    return edge // size, edge % size


@compiled
def join(model_a: Ints, model_b: Ints, lowest: Indices) -> None:
    """Replace lowest[model] = model, shape (n_models,), by the lowest model that cells link it to (union-find)."""
    for cell in range(len(model_a)):
        x, y = np.int64(model_a[cell]), np.int64(model_b[cell])
        while lowest[x] != x:
            lowest[x] = lowest[lowest[x]]
            x = lowest[x]
        while lowest[y] != y:
            lowest[y] = lowest[lowest[y]]
            y = lowest[y]
        lowest[max(x, y)] = min(x, y)
    for model in range(len(lowest)):  # in ascending order: the entry of a lower model is final
        lowest[model] = lowest[lowest[model]]


@compiled
def mark_wins(
    first: int, last: int, model_a: Ints, model_b: Ints, annotator: Ints,
    n: Floats, s: Floats, sign: Floats, n_models: int, won: Mask,
) -> None:  # fmt: skip
    """Mark winner · n_models + loser in `won`, shape (n_models²,), for cells first … last−1.

    A negative sign of the annotator reverses the cell; a sign of 0 leaves it out.
    """
    for cell in range(first, last):
        direction = sign[annotator[cell]]
        if direction != 0.0:
            a, b = np.int64(model_a[cell]), np.int64(model_b[cell])
            a_won, b_won = s[cell] > 0.0, s[cell] < n[cell]
            if direction < 0.0:
                a_won, b_won = b_won, a_won
            won[a * n_models + b] |= a_won
            won[b * n_models + a] |= b_won
