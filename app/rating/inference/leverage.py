"""Adjusts the sandwich where few clusters inform about a model: with a single annotator it sees no uncertainty."""

import numpy as np

from app.rating.data.arrays import Floats, Indices, Ints
from app.rating.data.compiled import compiled
from app.rating.data.threads import map_parts
from app.rating.data.votes import Cells
from app.rating.solver.likelihood import Likelihood
from app.rating.solver.residuals import moments

TINY = 1e-300  # avoids a division by 0 for a model without information
ENOUGH = 20  # clusters of equal shares need no adjustment


def leverage_adjustment(
    likelihood: Likelihood, R: Floats, theta: Floats, information: Floats, *, by_vote: bool
) -> Floats:
    """Return the amount of Σ amount·u uᵀ that each cell adds to the meat, u a vote's gradient by its residual.

    It is Σw of the cell times min(1, 2 (h − 1/20)), nothing for h below 1/20; h is the largest share of the information
    on either model of the cell that one cluster supplies. A cluster with a large share fits its own gradient away, and
    few squares remain to average over: the factor makes up for both as far as votes are independent (docs/math.md,
    "Uncertainty").

    Parameters
    ----------
    R, theta : the fit
    information : Σ w θ² of each model, shape (n_models,)
    by_vote : True makes every vote a cluster, False the votes of an annotator

    Returns
    -------
    float array, shape (n_cells,)
    """
    c, amount = likelihood.cells, np.zeros(len(likelihood.cells.n))

    def fill(part: tuple[int, int]) -> None:
        adjust_cells(
            *part,
            likelihood.rows.starts,
            c.model_a,
            c.model_b,
            c.n,
            R,
            theta,
            information,
            by_vote,
            1.0 / ENOUGH,
            amount,
        )

    map_parts(fill, likelihood.rows.parts)
    return amount


def count_annotators_by_model(cells: Cells) -> Indices:
    """Count the annotators who compared each model, shape (n_models,); cells sorted by annotator."""
    counts, last = np.zeros(cells.n_models, dtype=np.int64), np.full(cells.n_models, -1, dtype=np.int64)
    count_annotators(cells.annotator, cells.model_a, cells.model_b, last, counts)
    return counts


@compiled
def count_annotators(annotator: Ints, model_a: Ints, model_b: Ints, last: Indices, counts: Indices) -> None:
    """Count the annotators of each model, shape (n_models,); `last` is the model's latest annotator, −1 at first."""
    for cell in range(len(annotator)):
        for model in (model_a[cell], model_b[cell]):
            if last[model] != annotator[cell]:
                last[model] = annotator[cell]
                counts[model] += 1


@compiled
def adjust_cells(
    first: int, last: int, starts: Indices, model_a: Ints, model_b: Ints, n: Floats,
    R: Floats, theta: Floats, information: Floats, by_vote: bool, usual: float, amount: Floats,
) -> None:  # fmt: skip
    """Set amount (n_cells,) of annotators first … last−1."""
    own = np.zeros(len(R))
    for k in range(first, last):
        square = theta[k] ** 2
        for cell in range(starts[k], starts[k + 1]):
            a, b = model_a[cell], model_b[cell]
            _, variance, _ = moments(theta[k] * (R[a] - R[b]))
            amount[cell] = n[cell] * variance
            own[a] += amount[cell] * square
            own[b] += amount[cell] * square
        for cell in range(starts[k], starts[k + 1]):
            a, b = model_a[cell], model_b[cell]
            of_a, of_b = own[a], own[b]
            if by_vote:
                of_a = of_b = amount[cell] * square / max(n[cell], 1.0)
            share = max(of_a / max(information[a], TINY), of_b / max(information[b], TINY))
            amount[cell] *= min(max(2.0 * (share - usual), 0.0), 1.0)
        for cell in range(starts[k], starts[k + 1]):
            own[model_a[cell]] = own[model_b[cell]] = 0.0
