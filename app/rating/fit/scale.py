"""The solver's constraint on the scale, since (R, θ) and (cR, θ/c) give every vote the same probability."""

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from app.rating.arrays import Floats, Indices, Ints, sum_by
from app.rating.compiled import compiled
from app.rating.votes.cells import Cells

F = TypeVar("F", float, Floats)

ELO_PER_NATURAL = 400.0 / math.log(10.0)
WIDTH = 0.3
LEAST_CURVATURE = 0.01  # share of its own curvature that an ability keeps beside the constraint's


@dataclass(frozen=True)
class Scale:
    """The constraint Σ_k tanh((θ_k − 1)/0.3) = 0 over the annotators of every scale group: the typical ability is 1.

    It is a smooth median (an M-estimate of location with bounded influence): one ability, however extreme, moves the
    unit by one annotator's share at most. Without it a few annotators who never contradict themselves could raise the
    likelihood without limit by stretching all scores, at a bounded cost in the others' prior (docs/math.md, "The
    scale").

    Attributes
    ----------
    models, annotators : group of each; votes link the abilities within a group, and no others
    number : number of groups
    """

    models: Indices
    annotators: Indices
    number: int

    def bend(self, theta: Floats) -> Floats:
        """Return tanh((θ_k − 1)/0.3), whose derivative (times the width) is 1 − bend², shape (n_annotators,)."""
        return np.tanh((theta - 1.0) / WIDTH)

    def sum(self, values: Floats) -> Floats:
        """Sum a value per annotator over each group, shape (number,)."""
        return sum_by(self.annotators, values, self.number)


def one_group(n_models: int, n_annotators: int) -> Scale:
    """Return the scale of models and annotators in one group."""
    return Scale(np.zeros(n_models, dtype=np.int64), np.zeros(n_annotators, dtype=np.int64), 1)


@compiled
def keep_curvature(D: F, multiplier: F, bend: F) -> F:
    """Return the curvature of an ability with the constraint's, λv′, of its own at least 1 %: of one, or of all.

    Parameters
    ----------
    multiplier : λ of the annotator's group
    bend : of `Scale`
    """
    curvature: F = np.maximum(D - 2.0 / WIDTH * multiplier * bend * (1.0 - bend * bend), LEAST_CURVATURE * D)
    return curvature


def find_scale(cells: Cells) -> Scale:
    """Group the models and annotators that votes link, directly or through others. Nearly O(n_cells).

    Features follow the models. All votes share them, so that there is one group.
    """
    if cells.features is not None:
        return one_group(cells.n_models + cells.features.shape[1], cells.n_annotators)
    parent = np.arange(cells.n_models + cells.n_annotators)
    link(cells.model_a, cells.model_b, cells.annotator, cells.n_models, parent)
    number, group = np.unique(parent, return_inverse=True)
    return Scale(group[: cells.n_models], group[cells.n_models :], len(number))


@compiled
def link(
    model_a: Ints, model_b: Ints, annotator: Ints, n_models: int,
    parent: Indices,
) -> None:  # fmt: skip
    """Replace parent[node] = node, shape (n_models + n_annotators,), by the lowest node linked to it (union-find)."""
    for cell in range(len(annotator)):
        y = np.int64(annotator[cell]) + n_models
        if parent[model_a[cell]] == parent[y] and parent[model_b[cell]] == parent[y]:
            continue  # true of most cells
        for model in (model_a[cell], model_b[cell]):
            x = np.int64(model)
            y = np.int64(annotator[cell]) + n_models
            while parent[x] != x:
                parent[x] = parent[parent[x]]
                x = parent[x]
            while parent[y] != y:
                parent[y] = parent[parent[y]]
                y = parent[y]
            if x < y:
                parent[y] = x
            else:
                parent[x] = y
    for node in range(len(parent)):  # in ascending order: the entry of a lower node is final
        parent[node] = parent[parent[node]]


@compiled
def sum_typical(theta: Floats, group: Indices, factor: Floats, cap: float, total: Floats) -> None:
    """Add Σ tanh((θ·f − 1)/0.3) of each group to total[0], and its derivative by log f to total[1].

    f is the group's factor, and θ·f at most the cap; abilities at the cap stay there.
    """
    for k in range(len(theta)):
        scaled = theta[k]
        if scaled < cap:
            scaled = min(scaled * factor[group[k]], cap)
        bend = math.tanh((scaled - 1.0) / WIDTH)
        total[0, group[k]] += bend
        if scaled < cap:
            total[1, group[k]] += (1.0 - bend * bend) * scaled / WIDTH
