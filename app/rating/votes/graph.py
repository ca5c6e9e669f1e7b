from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.rating.arrays import Floats, Indices, Ints, Mask, sum_by
from app.rating.compiled import compiled
from app.rating.exchange import anywhere, concatenated, join
from app.rating.votes.cells import Cells, pool_annotators

FEW_MODELS = 128
STEP = 1e-3  # by which a model that beats another comes at least above it


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
    link(pairs.model_a, pairs.model_b, lowest)
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
    strong = strong_classes(orient(cells, sign))
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


def orient(cells: Cells, sign: NDArray[np.floating]) -> Cells:
    """Return the pair table of the votes as the annotators' abilities turn them (see `find_identified`)."""
    direction = np.asarray(sign, dtype=np.float64)
    if not anywhere(~(direction > 0.0)):
        return pool_annotators(cells)
    counted = cells.where(direction[cells.annotator] != 0.0)
    turned = direction[counted.annotator] < 0.0
    return pool_annotators(replace(counted, s=np.where(turned, counted.n - counted.s, counted.s)))


def strong_classes(pairs: Cells) -> Indices:
    """Label the strongly connected classes of the graph of wins in a pair table, shape (n_models,)."""
    winner, loser = _wins(pairs)
    if pairs.n_models <= FEW_MODELS:
        return _classes_of_few(winner, loser, pairs.n_models)
    # a tenth of a second to import, and most arenas have few models
    from scipy.sparse import coo_array  # noqa: PLC0415
    from scipy.sparse.csgraph import connected_components  # noqa: PLC0415

    graph = coo_array((np.ones(len(winner), dtype=np.int8), (winner, loser)), shape=(pairs.n_models,) * 2)
    strong: Indices = connected_components(graph, connection="strong")[1].astype(np.int64)
    return strong


def follow_wins(pairs: Cells, value: Floats) -> Floats:
    """Raise values so that they follow the wins of models over each other, as little as that takes.

    A strongly connected class keeps the differences of its models. Where votes lead from its models to those of another
    class, and none back, its lowest model comes above the other's highest.

    Parameters
    ----------
    pairs : the pair table
    value : finite, shape (n_models,)
    """
    strong = strong_classes(pairs)
    winner, loser = (strong[model] for model in _wins(pairs))
    across = winner != loser
    winner, loser = winner[across], loser[across]
    low, high = np.full(strong.max(initial=-1) + 1, np.inf), np.full(strong.max(initial=-1) + 1, -np.inf)
    np.minimum.at(low, strong, value)
    np.maximum.at(high, strong, value)
    raised = np.zeros(len(low))
    while True:  # at most as often as the longest path between the classes is long
        more = raised.copy()
        np.maximum.at(more, winner, high[loser] + raised[loser] + STEP - low[winner])
        if np.array_equal(more, raised):
            return value + raised[strong]
        raised = more


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


def _wins(pairs: Cells) -> tuple[Indices, Indices]:
    """Return winner and loser of every edge."""
    a_won, b_won = pairs.s > 0.0, pairs.s < pairs.n
    winner = np.concatenate([pairs.model_a[a_won], pairs.model_b[b_won]]).astype(np.int64)
    loser = np.concatenate([pairs.model_b[a_won], pairs.model_a[b_won]]).astype(np.int64)
    return winner, loser


@compiled
def link(model_a: Ints, model_b: Ints, lowest: Indices) -> None:
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


@dataclass(frozen=True)
class VoteSpread:
    """Votes of one annotator, on one model or on one pair of models, over those that have votes."""

    mean: float
    median: float
    least: float
    most: float


def spread_votes(cells: Cells) -> dict[str, VoteSpread]:
    """Return the spread of the votes per "annotator", "model" and "pair"; a vote counts for both of its models."""
    pairs, votes = pool_annotators(cells), cells.votes_by_annotator()
    by_annotator = join(_summarise, votes[votes > 0])
    counts = {"model": find_components(pairs).votes, "pair": pairs.n}
    return {"annotator": by_annotator, **{name: summarise(each[each > 0]) for name, each in counts.items()}}


def _summarise(votes: list[Floats]) -> VoteSpread:
    return summarise(concatenated(votes))


def summarise(votes: Floats) -> VoteSpread:
    """Return the spread of these numbers of votes."""
    return VoteSpread(float(votes.mean()), float(np.median(votes)), float(votes.min()), float(votes.max()))
