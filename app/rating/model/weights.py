"""Weights of votes, so that no annotator moves a model much more than a typical judge of it does."""

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.compiled import compiled
from app.rating.exchange import add_up, total
from app.rating.threads import map_parts
from app.rating.votes.cells import CellArrays, Cells

FREE = 5.0  # votes on a model, beside the multiple of what its judges have


def weigh_votes(cells: Cells, limit: float | None) -> Floats:
    """Return the weight of a vote of each cell, lower for annotators with many more votes on a model than its judges.

    With n_kj annotator k's votes on model j the limit is L_j = limit · mean_k min(n_kj, L'_j) + 5 over the model's
    judges, L'_j the same limit from the plain mean, so that no few annotators raise it for themselves. A vote of k on
    the models a and b has the weight min(1, L_a/n_ka, L_b/n_kb).

    Parameters
    ----------
    cells : sorted by annotator
    limit : positive; None for none

    Notes
    -----
    Of the votes only the numbers matter: an annotator whose votes contradict the scores is not freed of the limit. One
    pass over the cells, and two over those of annotators beyond a limit.
    """
    weight = np.ones(len(cells.n))
    if limit is None:
        return weight
    parts, largest = cells.split_annotators(), np.zeros(cells.n_annotators)
    votes, judges = _sum_beyond(cells, parts, largest, np.zeros(cells.n_models))
    judges = np.maximum(judges, 1.0)
    excess, _ = _sum_beyond(cells, parts, largest, limit * votes / judges + FREE)
    limits = limit * (votes - excess) / judges + FREE
    map_parts(lambda part: lower_weights(_beyond(largest, limits, part), cells.arrays, limits, weight), parts)
    return weight


def _beyond(largest: Floats, limits: Floats, part: tuple[int, int]) -> Indices:
    """Return the annotators of a part who may be beyond a limit: their largest n_kj is beyond the lowest one."""
    return part[0] + np.flatnonzero(largest[slice(*part)] >= limits.min(initial=np.inf))


def _sum_beyond(cells: Cells, parts: list[tuple[int, int]], largest: Floats, limits: Floats) -> Floats:
    """Return Σ_k max(n_kj − limit_j, 0) of each model and the number of annotators summed, shape (2, n_models).

    `largest`, shape (n_annotators,), is 0 or each annotator's largest n_kj, and then that.
    """

    def accumulate(part: tuple[int, int]) -> Floats:
        sums = np.zeros((2, cells.n_models))
        add_beyond(_beyond(largest, limits, part), cells.arrays, limits, sums, largest)
        return sums

    return total(add_up(map_parts(accumulate, parts)))


@compiled
def add_beyond(who: Indices, cells: CellArrays, limits: Floats, sums: Floats, largest: Floats) -> None:
    """Add what the annotators listed have beyond the limits to sums[0], their number to sums[1]; set `largest`."""
    starts, model_a, model_b = cells.starts, cells.model_a, cells.model_b
    own = np.zeros(len(limits))
    for k in who:
        add_own(k, cells, own)
        most = 0.0
        for cell in range(starts[k], starts[k + 1]):
            for model in (model_a[cell], model_b[cell]):
                if own[model] > 0.0:
                    most = max(most, own[model])
                    sums[0, model] += max(own[model] - limits[model], 0.0)
                    sums[1, model] += 1.0
                    own[model] = 0.0
        largest[k] = most


@compiled
def lower_weights(who: Indices, cells: CellArrays, limits: Floats, weight: Floats) -> None:
    """Lower the weight (n_cells,) of the cells of the annotators listed to the limits."""
    starts, model_a, model_b = cells.starts, cells.model_a, cells.model_b
    own = np.zeros(len(limits))
    for k in who:
        add_own(k, cells, own)
        for cell in range(starts[k], starts[k + 1]):
            excess = max(own[model_a[cell]] / limits[model_a[cell]], own[model_b[cell]] / limits[model_b[cell]])
            if excess > 1.0:
                weight[cell] /= excess
        for cell in range(starts[k], starts[k + 1]):
            own[model_a[cell]] = own[model_b[cell]] = 0.0


@compiled
def add_own(k: int, cells: CellArrays, own: Floats) -> None:
    """Add n_kj of annotator k on each model to own (n_models,)."""
    starts, model_a, model_b, n = cells.starts, cells.model_a, cells.model_b, cells.n
    for cell in range(starts[k], starts[k + 1]):
        own[model_a[cell]] += n[cell]
        own[model_b[cell]] += n[cell]
