"""Weights of votes, so that no annotator moves a model much more than a typical judge of it does."""

from dataclasses import dataclass, replace

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.compiled import compiled
from app.rating.fit.abilities import profile_abilities
from app.rating.fit.kernels import pair_of
from app.rating.fit.rows import CellRows
from app.rating.fit.scale import find_scale
from app.rating.threads import map_parts, split
from app.rating.votes.cells import WORTH_A_THREAD, CellArrays, Cells

FREE = 5.0  # votes on a model, beside the multiple of what its judges have
STEEPNESS = 1.25  # at 1 a vote of an able annotator pulls as one of a typical annotator, at 2 it tells as much
FIRST_SD = 1.0  # of the abilities' prior, until their spread is known
LEAST_MEDIAN = 0.1  # keeps abilities finite in a crowd of coins
NEAR = 0.05  # last step of the search for an ability; what is left is about its square


@dataclass(frozen=True)
class Weighted:
    """The votes of a fit, those of able annotators and of annotators beyond the limit with a weight below 1.

    Attributes
    ----------
    cells : the votes, n, s and ties of each cell times its weight
    by_ability : weight of the votes of each annotator before the limit, shape (n_annotators,)
    """

    cells: Cells
    by_ability: Floats


def first_abilities(cells: Cells, R: Floats, *, sd: float = FIRST_SD) -> tuple[Floats, Floats]:
    """Return scores, and every ability at them under the prior N(1, sd²), in units of each group's median ability.

    Parameters
    ----------
    R : in any unit, shape (n_models,)

    Returns
    -------
    R, theta : shapes (n_models,) and (n_annotators,)
    """
    theta = profile_abilities(CellRows(cells), R, np.ones(cells.n_annotators), precision=sd**-2, near=NEAR).theta
    scale = find_scale(cells)
    median = [np.median(theta[scale.annotators == each]) for each in range(scale.number)]
    unit = np.maximum(np.array(median), LEAST_MEDIAN)
    return R * unit[scale.models], theta / unit[scale.annotators]


def weigh_abilities(theta: Floats) -> Floats:
    """Return the weight of each annotator's votes, |θ|^−1.25 above 1, else 1.

    A vote pulls the scores by θ times its weight. So able annotators pull a little less than typical
    ones, as |θ|^−¼, and what their votes tell, θ² times the weight, still grows, as |θ|^¾.
    """
    weight: Floats = np.maximum(np.abs(theta), 1.0) ** -STEEPNESS
    return weight


def weigh_votes(cells: Cells, by_ability: Floats, limit: float) -> Weighted | None:
    """Weigh votes by abilities, and lower the weight of annotators with many more votes on a model than its judges.

    With n_kj annotator k's votes on model j the limit is L_j = limit · mean_k min(n_kj, L'_j) + 5 over the model's
    judges, L'_j the same limit from the plain mean, so that no few annotators raise it for themselves. A vote of k on
    the models a and b has the weight by_ability_k · min(1, L_a/n_ka, L_b/n_kb).

    Parameters
    ----------
    cells : sorted by annotator
    by_ability : from `weigh_abilities`, shape (n_annotators,)
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
    total, judges = _sum_beyond(rows, largest, np.zeros(size))
    judges = np.maximum(judges, 1.0)
    plain = limit * total / judges + FREE
    excess, _ = _sum_beyond(rows, largest, plain)
    limits = limit * (total - excess) / judges + FREE
    weight = by_ability[cells.annotator]
    if cells.trust is not None:
        weight = weight * cells.trust

    def lower(part: tuple[int, int]) -> None:
        who = _beyond(largest, limits, part)
        lower_weights(who, cells.arrays, limits, weight)

    map_parts(lower, rows.parts)
    return scale_votes(cells, weight, by_ability)


def scale_votes(cells: Cells, weight: Floats, by_ability: Floats) -> Weighted | None:
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
    return Weighted(replace(cells, n=n, s=s, ties=ties), by_ability)


def _beyond(largest: Floats, limits: Floats, part: tuple[int, int]) -> Indices:
    """Return the annotators of a part who may be beyond a limit: their largest n_kj is beyond the lowest one."""
    return part[0] + np.flatnonzero(largest[slice(*part)] >= limits.min())


def _sum_beyond(rows: CellRows, largest: Floats, limits: Floats) -> Floats:
    """Return Σ_k max(n_kj − limit_j, 0) of each model and the number of annotators summed, shape (2, n_models).

    `largest`, shape (n_annotators,), is 0 or each annotator's largest n_kj, and then that.
    """
    c = rows.cells

    def accumulate(part: tuple[int, int]) -> Floats:
        sums, who = np.zeros((2, c.n_models)), _beyond(largest, limits, part)
        add_beyond(who, c.arrays, limits, sums, largest)
        return sums

    first, *others = map_parts(accumulate, rows.parts)
    total: Floats = sum(others, first)
    return total


@compiled
def add_beyond(
    who: Indices, cells: CellArrays, limits: Floats, sums: Floats,
    largest: Floats,
) -> None:  # fmt: skip
    """Add what the annotators listed have beyond the limits to sums[0], their number to sums[1]; set `largest`."""
    starts, model_a, model_b = cells.starts, cells.model_a, cells.model_b
    own = np.zeros(len(limits))
    for k in who:
        add_own(k, cells, own)
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
def lower_weights(
    who: Indices, cells: CellArrays, limits: Floats, weight: Floats
) -> None:  # fmt: skip
    """Lower the weight (n_cells,) of the cells of the annotators listed to the limits."""
    starts, model_a, model_b = cells.starts, cells.model_a, cells.model_b
    own = np.zeros(len(limits))
    for k in who:
        add_own(k, cells, own)
        for cell in range(starts[k], starts[k + 1]):
            a, b = pair_of(model_a, model_b, cell)
            excess = max(own[a] / limits[a], own[b] / limits[b])
            if excess > 1.0:
                weight[cell] /= excess
        for cell in range(starts[k], starts[k + 1]):
            for model in pair_of(model_a, model_b, cell):
                own[model] = 0.0


@compiled
def add_own(k: int, cells: CellArrays, own: Floats) -> None:
    """Add n_kj of annotator k on each model to own (n_models,)."""
    starts, model_a, model_b, n = cells.starts, cells.model_a, cells.model_b, cells.n
    for cell in range(starts[k], starts[k + 1]):
        for model in pair_of(model_a, model_b, cell):
            own[model] += n[cell]
