"""Compiled loops over annotators' cells for the likelihoods of `null_model`."""

import math

import numpy as np

from app.rating.data.arrays import Floats, Indices, Ints
from app.rating.data.compiled import compiled

ROOM = 600.0  # log of the largest product; the factors of one more cell could overflow beyond it
FEW = 8.0  # votes of a cell that are multiplied one by one


@compiled
def raise_odds(R: Floats, ability: Floats) -> tuple[Floats, Floats]:
    """Return e^{ability · R / 2} and its reciprocal, shape (n_models, abilities): a cell's odds are two products.

    Cells of models with scores so far apart that a power is cut off need logarithms, see `reach`.
    """
    raised = np.exp(np.clip(0.5 * np.outer(R, ability), -ROOM, ROOM))
    return raised, 1.0 / raised


@compiled
def reach(steepest: float, R: Floats, a: int, b: int, lean: float) -> float:
    """Return a bound of the logarithms of a cell's odds, and of the powers that `raise_odds` has for them."""
    bound: float = 0.5 * (steepest * (abs(R[a]) + abs(R[b])) + abs(lean))
    return bound


@compiled
def add_annotators(
    first: int, last: int, starts: Indices, model_a: Ints, model_b: Ints, win: Floats, tie: Floats, loss: Floats,
    R: Floats, lean: Floats, ability: Floats, tie_propensity: Floats, log_tie_propensity: Floats, out: Floats,
) -> None:  # fmt: skip
    """Add log-likelihoods of annotators first … last−1 to `out`, shape (annotators, abilities, tie propensities).

    lean: log odds that the side adds for model_a, shape (n_cells,). Multiplies the denominators and takes one
    logarithm of their product, because logarithms are slow.
    """
    nodes, steepest, widest = len(ability), np.abs(ability).max(), math.log(2.0 + tie_propensity.max())
    raised, lowered = raise_odds(R, ability)
    product, both = np.ones((len(tie_propensity), nodes)), np.empty(nodes)
    for k in range(first, last):
        slope, leaning, ties, room = 0.0, 0.0, 0.0, ROOM
        for cell in range(starts[k], starts[k + 1]):
            a, b = model_a[cell], model_b[cell]
            d, n = R[a] - R[b], win[cell] + tie[cell] + loss[cell]
            slope += 0.5 * (win[cell] - loss[cell]) * d
            leaning += 0.5 * (win[cell] - loss[cell]) * lean[cell]
            ties += tie[cell]
            largest = n * (reach(steepest, R, a, b, lean[cell]) + widest)
            if n > FEW or n != math.floor(n) or largest > ROOM:
                subtract_cell(n, d, lean[cell], ability, tie_propensity, out[k])
                continue
            if largest > room:
                take_log(product, out[k].T)
                room = ROOM
            room -= largest
            up = math.exp(0.5 * lean[cell])
            for i in range(nodes):
                both[i] = up * raised[a, i] * lowered[b, i] + lowered[a, i] * raised[b, i] / up
            put_denominators(n, both, tie_propensity, product)
        take_log(product, out[k].T)
        for i in range(nodes):
            for j in range(len(tie_propensity)):
                out[k, i, j] += slope * ability[i] + leaning + ties * log_tie_propensity[j]


@compiled
def put_denominators(n: float, both: Floats, tie_propensity: Floats, product: Floats) -> None:
    """Multiply `product`, shape (tie propensities, abilities), by a cell's denominators to the power n."""
    for _ in range(int(n)):
        for j in range(len(tie_propensity)):
            for i in range(len(both)):
                product[j, i] *= both[i] + tie_propensity[j]


@compiled
def subtract_cell(n: float, d: float, lean: float, ability: Floats, tie_propensity: Floats, out: Floats) -> None:
    """Subtract n times the logarithm of a cell's denominators."""
    for i in range(len(ability)):
        y = 0.5 * abs(ability[i] * d + lean)
        for j in range(len(tie_propensity)):
            out[i, j] -= n * (y + math.log1p(math.exp(-2.0 * y) + tie_propensity[j] * math.exp(-y)))


@compiled
def take_log(product: Floats, out: Floats) -> None:
    """Subtract the logarithm of the product from `out` and reset the product to 1."""
    for i in range(product.shape[0]):
        for j in range(product.shape[1]):
            out[i, j] -= math.log(product[i, j])
            product[i, j] = 1.0
