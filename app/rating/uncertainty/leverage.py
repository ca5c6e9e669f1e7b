"""Shares of annotators in the information on a model: a large one hides its own error, and leaves few others."""

import math
from dataclasses import dataclass

import numpy as np

from app.rating.arrays import Floats, Indices, Ints
from app.rating.compiled import compiled
from app.rating.fit.kernels import moments, pair_of
from app.rating.fit.likelihood import Likelihood
from app.rating.threads import map_parts
from app.rating.votes.cells import Cells

TINY = 1e-300  # avoids a division by 0 for a model without information
LARGEST = 0.8  # share up to which a contribution is scaled up for what the fit takes away of it; then it tells nothing
ENOUGH = 0.15  # share from which too few annotators are left to learn from; votes are then also taken as independent


@dataclass(frozen=True)
class Leverage:
    """Shares h of annotators in the information Σ w θ² on a model.

    Attributes
    ----------
    scale : 1/√(1 − h) of each cell, h the larger share of its annotator on its two models, shape (n_cells,)
    amount : Σw of each cell times (h − 0.15)/0.65, between 0 and 1, shape (n_cells,)
    effective : 1/Σ_k h_k² of each model, its effective number of annotators, shape (n_models,)
    judges : number of annotators who inform about each model, shape (n_models,)
    """

    scale: Floats
    amount: Floats
    effective: Floats
    judges: Indices


def find_leverage(likelihood: Likelihood, R: Floats, theta: Floats, information: Floats) -> Leverage:
    """Find the shares of annotators in the information on each model.

    Parameters
    ----------
    R, theta : the fit
    information : Σ w θ² of each model, shape (n_models,)
    """
    c = likelihood.cells
    scale, amount = np.ones(len(c.n)), likelihood.exponentials(R, theta)

    def fill(part: tuple[int, int]) -> Floats:
        sums = np.zeros((2, len(R)))
        share_cells(
            *part, likelihood.rows.starts, c.model_a, c.model_b, c.n, R, theta, information, scale, amount, sums
        )
        return sums

    first, *others = map_parts(fill, likelihood.rows.parts)
    squares, judges = sum(others, first)
    return Leverage(scale, amount, 1.0 / np.maximum(squares, TINY), judges.astype(np.int64))


def independent_amount(cells: Cells, R: Floats, theta: Floats, information: Floats) -> Floats:
    """Return for every vote its own cluster what `Leverage.amount` is for annotators, shape (n_cells,)."""
    x = theta[cells.annotator] * (R[cells.model_a] - R[cells.model_b])
    u = np.exp(-np.abs(x))
    variance = u / (1.0 + u) ** 2
    least = np.minimum(information[cells.model_a], information[cells.model_b])
    share = variance * theta[cells.annotator] ** 2 / np.maximum(least, TINY)
    amount: Floats = cells.n * variance * np.clip((share - ENOUGH) / (LARGEST - ENOUGH), 0.0, 1.0)
    return amount


@compiled
def share_cells(
    first: int, last: int, starts: Indices, model_a: Ints, model_b: Ints, n: Floats,
    R: Floats, theta: Floats, information: Floats, scale: Floats, amount: Floats, sums: Floats,
) -> None:  # fmt: skip
    """Set scale and amount (n_cells,) of annotators first … last−1, and add their h² and their number to sums.

    `amount` holds e^−|x| of each cell before.
    """
    own, inverse = np.zeros(len(R)), 1.0 / np.maximum(information, TINY)
    for k in range(first, last):
        square = theta[k] ** 2
        for cell in range(starts[k], starts[k + 1]):
            a, b = pair_of(model_a, model_b, cell)
            _, variance, _ = moments(theta[k] * (R[a] - R[b]), amount[cell])
            amount[cell] = n[cell] * variance
            own[a] += amount[cell] * square
            own[b] += amount[cell] * square
        for cell in range(starts[k], starts[k + 1]):
            a, b = pair_of(model_a, model_b, cell)
            share = max(own[a] * inverse[a], own[b] * inverse[b])
            scale[cell] = 1.0 / math.sqrt(1.0 - min(share, LARGEST))
            amount[cell] *= min(max((share - ENOUGH) / (LARGEST - ENOUGH), 0.0), 1.0)
        for cell in range(starts[k], starts[k + 1]):
            for model in pair_of(model_a, model_b, cell):
                if own[model] > 0.0:
                    sums[0, model] += (own[model] * inverse[model]) ** 2
                    sums[1, model] += 1.0
                    own[model] = 0.0
