"""Weights of votes, so that no annotator knows much more of a model than a typical judge of it does."""

from dataclasses import dataclass, replace

import numpy as np

from app.rating.data.arrays import Floats, Indices, Ints
from app.rating.data.compiled import compiled
from app.rating.data.threads import map_parts
from app.rating.data.votes import Cells
from app.rating.solver.kernels import pair_of
from app.rating.solver.rows import CellRows

FREE = 5.0  # votes of a typical annotator on a model, beside the multiple of what its judges have
ROUNDS = 2  # means of a model's judges; from the second one, annotators count up to the limit only


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
    scores is not freed of the limit. Two passes over the cells and one that sets the weights.
    """
    rows, size = CellRows(cells), cells.n_models
    limits = np.full(size, np.inf)
    for _ in range(ROUNDS):
        limits = limit * _mean_of_judges(rows, worth, limits) + FREE
    weight = np.empty(len(cells.n))

    def fill(part: tuple[int, int]) -> None:
        fill_weights(*part, rows.starts, cells.model_a, cells.model_b, cells.n, worth, limits, weight)

    map_parts(fill, rows.parts)
    return scale_votes(cells, weight, worth)


def scale_votes(cells: Cells, weight: Floats, worth: Floats) -> Weighted | None:
    """Multiply the votes of each cell by its weight; None where every vote has the weight 1."""
    if not (weight < 1.0).any():
        return None
    return Weighted(replace(cells, n=weight * cells.n, s=weight * cells.s, ties=weight * cells.ties), worth)


def _mean_of_judges(rows: CellRows, worth: Floats, limits: Floats) -> Floats:
    """Return the mean of min(I_kj, limit_j) over the annotators who judged model j, shape (n_models,)."""
    cells = rows.cells

    def accumulate(part: tuple[int, int]) -> Floats:
        sums = np.zeros((2, cells.n_models))
        add_limited(*part, rows.starts, cells.model_a, cells.model_b, cells.n, worth, limits, sums)
        return sums

    first, *others = map_parts(accumulate, rows.parts)
    total, judges = sum(others, first)
    mean: Floats = total / np.maximum(judges, 1.0)
    return mean


@compiled
def add_limited(
    first: int, last: int, starts: Indices, model_a: Ints, model_b: Ints, n: Floats, worth: Floats, limits: Floats,
    sums: Floats,
) -> None:  # fmt: skip
    """Add min(I, limit) of annotators first … last−1 on each model to sums[0], and their number to sums[1]."""
    own = np.zeros(len(limits))
    for k in range(first, last):
        for cell in range(starts[k], starts[k + 1]):
            for model in pair_of(model_a, model_b, cell):
                own[model] += n[cell] * worth[k]
        for cell in range(starts[k], starts[k + 1]):
            for model in pair_of(model_a, model_b, cell):
                if own[model] > 0.0:
                    sums[0, model] += min(own[model], limits[model])
                    sums[1, model] += 1.0
                    own[model] = 0.0


@compiled
def fill_weights(
    first: int, last: int, starts: Indices, model_a: Ints, model_b: Ints, n: Floats, worth: Floats, limits: Floats,
    weight: Floats,
) -> None:  # fmt: skip
    """Set the weight (n_cells,) of the cells of annotators first … last−1."""
    own = np.zeros(len(limits))
    for k in range(first, last):
        for cell in range(starts[k], starts[k + 1]):
            for model in pair_of(model_a, model_b, cell):
                own[model] += n[cell] * worth[k]
        for cell in range(starts[k], starts[k + 1]):
            a, b = pair_of(model_a, model_b, cell)
            excess = max(own[a] / limits[a], own[b] / limits[b])
            weight[cell] = 1.0 / excess if excess > 1.0 else 1.0
        for cell in range(starts[k], starts[k + 1]):
            for model in pair_of(model_a, model_b, cell):
                own[model] = 0.0
