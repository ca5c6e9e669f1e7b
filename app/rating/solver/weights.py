"""Weights of votes, so that no annotator knows much more of a model than a typical judge of it does."""

from dataclasses import dataclass, replace

import numpy as np

from app.rating.data.arrays import Floats, Indices, Ints
from app.rating.data.compiled import compiled
from app.rating.data.threads import map_parts, split
from app.rating.data.votes import WORTH_A_THREAD, Cells
from app.rating.solver.kernels import pair_of
from app.rating.solver.rows import CellRows

FREE = 5.0  # votes of a typical annotator on a model, beside the multiple of what its judges have


@dataclass(frozen=True)
class Weighted:
    """The votes of a fit, those of annotators beyond the limit with a weight below 1.

    Attributes
    ----------
    cells : the votes, n, s and ties of each cell times its weight
    worth : of a vote of each annotator, in votes of a typical one, shape (n_annotators,)
    """

    cells: Cells
    worth: Floats


def vote_worth(theta: Floats) -> Floats:
    """Return how many votes of a typical annotator tell as much as one of each annotator: θ², at least 1."""
    worth: Floats = np.maximum(np.abs(theta), 1.0) ** 2
    return worth


def weigh_votes(cells: Cells, worth: Floats, limit: float) -> Weighted | None:
    """Lower the weight of annotators who have more votes' worth on a model than `limit` times its mean judge, plus 5.

    I_kj = n_kj·worth_k, n_kj annotator k's votes on model j; L_j = limit · mean_k min(I_kj, L'_j) + 5 over the model's
    judges, L'_j the same limit from the plain mean, so that no few annotators raise it for themselves. A vote on the
    models a and b has the weight min(1, L_a/I_ka, L_b/I_kb).

    Parameters
    ----------
    cells : sorted by annotator
    worth : of one vote, from `vote_worth`, shape (n_annotators,)
    limit : positive

    Returns
    -------
    Weighted
        None where every vote has the weight 1.

    Notes
    -----
    Of the votes only the numbers matter, and of the fit only the abilities: an annotator whose votes contradict the
    scores is not freed of the limit. One pass over the cells, and two over those of annotators beyond a limit.
    """
    rows, size = CellRows(cells), cells.n_models
    largest = np.zeros(cells.n_annotators)
    total, judges = _sum_beyond(rows, largest, worth, np.zeros(size))
    judges = np.maximum(judges, 1.0)
    plain = limit * total / judges + FREE
    excess, _ = _sum_beyond(rows, largest, worth, plain)
    limits = limit * (total - excess) / judges + FREE
    weight = np.ones(len(cells.n))

    def fill(part: tuple[int, int]) -> None:
        who = _beyond(largest, limits, part)
        fill_weights(who, rows.starts, cells.model_a, cells.model_b, cells.n, worth, limits, weight)

    map_parts(fill, rows.parts)
    return scale_votes(cells, weight, worth)


def scale_votes(cells: Cells, weight: Floats, worth: Floats) -> Weighted | None:
    """Multiply the votes of each cell by its weight; None where every vote has the weight 1."""
    if weight.min(initial=1.0) >= 1.0:
        return None
    scaled = [np.empty(len(weight)) for _ in range(3)]

    def scale(part: tuple[int, int]) -> None:
        here = slice(*part)
        for votes, out in zip((cells.n, cells.s, cells.ties), scaled, strict=True):
            np.multiply(weight[here], votes[here], out=out[here])

    map_parts(scale, split(len(weight), WORTH_A_THREAD))
    n, s, ties = scaled
    return Weighted(replace(cells, n=n, s=s, ties=ties), worth)


def _beyond(largest: Floats, limits: Floats, part: tuple[int, int]) -> Indices:
    """Return the annotators of a part who may be beyond a limit: their largest I_kj is beyond the lowest one."""
    return part[0] + np.flatnonzero(largest[slice(*part)] >= limits.min())


def _sum_beyond(rows: CellRows, largest: Floats, worth: Floats, limits: Floats) -> Floats:
    """Return Σ_k max(I_kj − limit_j, 0) of each model and the number of annotators summed, shape (2, n_models).

    `largest`, shape (n_annotators,), is 0 or each annotator's largest I_kj, and then that.
    """
    c = rows.cells

    def accumulate(part: tuple[int, int]) -> Floats:
        sums, who = np.zeros((2, c.n_models)), _beyond(largest, limits, part)
        add_beyond(who, rows.starts, c.model_a, c.model_b, c.n, worth, limits, sums, largest)
        return sums

    first, *others = map_parts(accumulate, rows.parts)
    total: Floats = sum(others, first)
    return total


@compiled
def add_beyond(
    who: Indices, starts: Indices, model_a: Ints, model_b: Ints, n: Floats, worth: Floats, limits: Floats,
    sums: Floats, largest: Floats,
) -> None:  # fmt: skip
    """Add what the annotators listed have beyond the limits to sums[0], their number to sums[1]; set `largest`."""
    own = np.zeros(len(limits))
    for k in who:
        add_own(k, starts, model_a, model_b, n, worth, own)
        most = 0.0
        for cell in range(starts[k], starts[k + 1]):
            for model in pair_of(model_a, model_b, cell):
                if own[model] > 0.0:
                    most = max(most, own[model])
                    sums[0, model] += max(own[model] - limits[model], 0.0)
                    sums[1, model] += 1.0
                    own[model] = 0.0
        largest[k] = most


@compiled
def fill_weights(
    who: Indices, starts: Indices, model_a: Ints, model_b: Ints, n: Floats, worth: Floats, limits: Floats,
    weight: Floats,
) -> None:  # fmt: skip
    """Set the weight (n_cells,) of the cells of the annotators listed."""
    own = np.zeros(len(limits))
    for k in who:
        add_own(k, starts, model_a, model_b, n, worth, own)
        for cell in range(starts[k], starts[k + 1]):
            a, b = pair_of(model_a, model_b, cell)
            excess = max(own[a] / limits[a], own[b] / limits[b])
            weight[cell] = 1.0 / excess if excess > 1.0 else 1.0
        for cell in range(starts[k], starts[k + 1]):
            for model in pair_of(model_a, model_b, cell):
                own[model] = 0.0


@compiled
def add_own(
    k: int, starts: Indices, model_a: Ints, model_b: Ints, n: Floats, worth: Floats, own: Floats
) -> None:  # fmt: skip
    """Add I_kj of annotator k on each model to own (n_models,)."""
    for cell in range(starts[k], starts[k + 1]):
        for model in pair_of(model_a, model_b, cell):
            own[model] += n[cell] * worth[k]
