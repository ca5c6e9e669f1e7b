"""Loops over annotators' cells for the likelihoods of `crowd`, compiled."""

import math

import numpy as np
from numpy.typing import NDArray

from app.rating.compiled import compiled
from app.rating.sums import Floats

Ints = NDArray[np.int32]
Starts = NDArray[np.int64]


@compiled
def add_cell(
    win: float, tie: float, loss: float, d: float, ability: Floats, evenness: Floats, log_evenness: Floats, out: Floats
) -> None:
    """Add one cell's log-likelihood at every (ability, evenness) node to `out`, shape (abilities, evennesses)."""
    n = win + tie + loss
    for i in range(len(ability)):
        y = 0.5 * ability[i] * d
        both = math.exp(y) + math.exp(-y)
        straight = (win - loss) * y
        for j in range(len(evenness)):
            out[i, j] += straight + tie * log_evenness[j] - n * math.log(both + evenness[j])


@compiled
def add_annotators(
    first: int, last: int, starts: Starts, model_a: Ints, model_b: Ints, win: Floats, tie: Floats, loss: Floats,
    R: Floats, ability: Floats, evenness: Floats, log_evenness: Floats, out: Floats,
) -> None:  # fmt: skip
    """Add log-likelihoods of annotators first … last−1 at every node to `out`, (annotators, abilities, evennesses)."""
    for k in range(first, last):
        for cell in range(starts[k], starts[k + 1]):
            d = R[model_a[cell]] - R[model_b[cell]]
            add_cell(win[cell], tie[cell], loss[cell], d, ability, evenness, log_evenness, out[k])
