"""What annotators are as clusters, where their abilities are known or maximised."""

from typing import NamedTuple

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.compiled import compiled
from app.rating.model.crowd import BLOCK, DENSE_GAIN
from app.rating.model.score_kernels import LARGEST_SHARE, take_place
from app.rating.threads import map_parts
from app.rating.votes.cells import CellArrays, Cells

TINY = 1e-300


class PlainClusters(NamedTuple):
    """Sums over the annotators, c_k what annotator k adds to the scores' gradient, h_ki its share of model i.

    Attributes
    ----------
    meat : Σ c_k c_k′, shape (n_models, n_models)
    with_pull : Σ c_k pull_k, shape (n_models,)
    shares : Σ h_ki², shape (n_models,)
    judges : annotators who inform about each model, shape (n_models,)
    """

    meat: Floats
    with_pull: Floats
    shares: Floats
    judges: Floats


def sum_clusters(cells: Cells, contribution: Floats, information: Floats, whole: Floats, pull: Floats) -> PlainClusters:
    """Take every annotator as a cluster.

    What it adds to the gradient counts 1/√(1 − h) times, for what the fit takes away of it.

    Parameters
    ----------
    cells : sorted by annotator
    contribution : by how much each cell moves model_a's equation up and model_b's down, shape (n_cells,)
    information : of each cell on both of its models, shape (n_cells,)
    whole : information on each model, shape (n_models,)
    pull : of each annotator, shape (n_annotators,)
    """
    size = cells.n_models
    dense = np.minimum(2.0 * np.diff(cells.starts), size) ** 2 * DENSE_GAIN > float(size) ** 2

    def add(part: tuple[int, int]) -> PlainClusters:
        sums = PlainClusters(np.zeros((size, size)), np.zeros(size), np.zeros(size), np.zeros(size))
        who = np.arange(*part)
        few, many = who[~dense[who]], who[dense[who]]
        rows = np.empty((min(BLOCK, len(many)), size))
        blocks = [(few, rows[:0]), *((many[at : at + BLOCK], rows) for at in range(0, len(many), BLOCK))]
        for some, room in blocks:
            filled = room[: len(some)]
            add_clusters(some, cells.arrays, contribution, information, np.maximum(whole, TINY), pull, sums, filled)
            sums.meat[:] += filled.T @ filled
        return sums

    parts = map_parts(add, cells.split_annotators())
    return PlainClusters(*(np.sum(each, axis=0) for each in zip(*parts, strict=True)))


@compiled
def add_clusters(
    who: Indices, cells: CellArrays, contribution: Floats, information: Floats, whole: Floats, pull: Floats,
    sums: PlainClusters, rows: Floats,
) -> None:  # fmt: skip
    """Add the annotators in `who` to the sums; `rows`, shape (n, n_models) or (0, n_models), or `meat` gets c_k."""
    starts, a, b, size = cells.starts, cells.model_a, cells.model_b, len(whole)
    own, touched, places = np.zeros((size, 2)), np.empty(size + 1, np.int64), np.full(size, -1)
    rows[:] = 0.0
    for row in range(len(who)):
        k, count = who[row], 0
        for c in range(starts[k], starts[k + 1]):
            x, count = take_place(a[c], places, touched, count)
            y, count = take_place(b[c], places, touched, count)
            own[x, 0] += contribution[c]
            own[y, 0] -= contribution[c]
            own[x, 1] += information[c]
            own[y, 1] += information[c]
        for place in range(count):
            i = touched[place]
            share = own[place, 1] / whole[i]
            own[place, 0] /= np.sqrt(1.0 - min(share, LARGEST_SHARE))
            sums.with_pull[i] += own[place, 0] * pull[k]
            sums.shares[i] += share * share
            sums.judges[i] += 1.0 if share > 0.0 else 0.0
            if len(rows):
                rows[row, i] = own[place, 0]
        if not len(rows):
            for place in range(count):
                for other in range(count):
                    sums.meat[touched[place], touched[other]] += own[place, 0] * own[other, 0]
        own[:count] = 0.0
        for place in range(count):
            places[touched[place]] = -1
