"""What fixes the scale, since (R, θ) and (cR, θ/c) give every vote the same probability.

A constraint of the solver, and the published unit: ability 1 is the typical annotator.
"""

import math
from dataclasses import dataclass

import numpy as np

from app.rating.arrays import Floats, Indices, Ints, sum_by
from app.rating.compiled import compiled
from app.rating.errors import NoCommonRankingError
from app.rating.votes.cells import Cells

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

    def gradient(self, theta: Floats) -> Floats:
        """Return the derivative of the constraint by θ_k (times the width), shape (n_annotators,)."""
        return 1.0 - np.tanh((theta - 1.0) / WIDTH) ** 2

    def curvature(self, theta: Floats) -> Floats:
        """Return the derivative of `gradient`, shape (n_annotators,)."""
        t = np.tanh((theta - 1.0) / WIDTH)
        return -2.0 * t * (1.0 - t**2) / WIDTH

    def sum(self, values: Floats) -> Floats:
        """Sum a value per annotator over each group, shape (number,)."""
        return sum_by(self.annotators, values, self.number)


def find_scale(cells: Cells) -> Scale:
    """Group the models and annotators that votes link, directly or through others. Nearly O(n_cells)."""
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


ELO_PER_NATURAL = 400.0 / math.log(10.0)
LEAST_MEDIAN = 0.1
WIDEST = 0.5  # width of the smooth median of one ability; of n abilities n^(1/3) times less
CONVERGED = 1e-14  # of the equation, for each annotator
TINY = 1e-300
ROUNDS = 100  # Newton steps, each replaced by a halving of the range where it would leave it


def unit_widths(group: Indices) -> Floats:
    """Return the width n^(−1/3)/2 of the smooth median of each annotator's group of n, shape (n_annotators,).

    It vanishes slower than 1/n, so that the slope of the equation is known ever better, and faster than n^(−1/4), so
    that the smooth median comes so near to the median that the difference is small against the error of either.
    """
    members = np.bincount(group).astype(np.float64)
    widths: Floats = WIDEST * np.cbrt(1.0 / np.maximum(members, 1.0))
    return widths[group]


def typical_ability(theta: Floats, group: Indices | None = None) -> Floats:
    """Return the unit of published abilities: the m with Σ_k tanh((θ_k/m − 1)/h) = 0, a smooth median.

    Parameters
    ----------
    theta : annotators in the fit, shape (n_annotators,)
    group : scale group of each annotator (scales of different groups do not compare); default one group

    Returns
    -------
    float array, shape (n_annotators,): the unit of each annotator's group

    Raises
    ------
    NoCommonRankingError
        A median at or below 0.1: the annotators have no common ranking.
    """
    group = np.zeros(len(theta), dtype=np.int64) if group is None else group
    number, width = int(group.max(initial=-1)) + 1, unit_widths(group)
    unit = np.array([np.median(theta[group == each]) for each in range(number)])
    if number and unit.min() <= LEAST_MEDIAN:
        raise NoCommonRankingError(
            f"the median ability is {unit.min():.3f}, at or below {LEAST_MEDIAN}: the annotators have no common ranking"
        )
    members, low, high = np.bincount(group, minlength=number), np.zeros(number), np.full(number, np.inf)
    for _ in range(ROUNDS):
        ability = theta / unit[group]
        t = np.tanh((ability - 1.0) / width)
        value, slope = (np.bincount(group, each, minlength=number) for each in (t, (1.0 - t**2) * ability / width))
        if np.all(np.abs(value) <= CONVERGED * members):
            break
        low, high = np.where(value > 0, unit, low), np.where(value > 0, high, unit)
        newton = unit * (1.0 + value / np.maximum(slope, TINY))
        middle = np.where(np.isfinite(high), 0.5 * (low + high), 2.0 * unit)
        unit = np.where((low < newton) & (newton < high), newton, middle)
    return unit[group]
