"""Compiled loops that collapse votes to cells."""

import numpy as np

from app.rating.arrays import Floats, Indices, Ints
from app.rating.compiled import compiled
from app.rating.votes.columns import OUTCOME_BITS, TIE


@compiled
def pack_votes(
    annotator: Indices, model_a: Indices, model_b: Indices, outcome: Floats, n_annotators: int, n_models: int,
    bits: int, packed: Indices,
) -> bool:  # fmt: skip
    """Set each vote as one integer: annotator, lower model, higher model, outcome; return whether all votes are valid.

    Parameters
    ----------
    bits : of a model
    """
    good = True
    for i in range(len(packed)):
        k, a, b, W = annotator[i], model_a[i], model_b[i], outcome[i]
        good &= (0 <= k < n_annotators) & (0 <= a < n_models) & (0 <= b < n_models) & (a != b)
        good &= (W == 0.0) | (W == TIE) | (W == 1.0)
        pair = (k << bits | min(a, b)) << bits | max(a, b)
        packed[i] = pair << OUTCOME_BITS | np.int64(2.0 * (W if a < b else 1.0 - W))
    return good


@compiled
def merge_votes(packed: Indices, weight: Floats, bits: int) -> tuple[Ints, Ints, Ints, Floats, Floats, Floats]:
    """Return annotator, model_a, model_b, n, s and ties of the cells of sorted votes.

    Parameters
    ----------
    weight : of each vote; empty: 1
    """
    number, before = 0, np.int64(-1)
    for vote in packed:
        number += vote >> OUTCOME_BITS != before
        before = vote >> OUTCOME_BITS
    who, (n, s, ties) = np.empty((3, number), np.int32), np.zeros((3, number))
    row, before, mask = -1, np.int64(-1), (1 << bits) - 1
    for i in range(len(packed)):
        cell, code = packed[i] >> OUTCOME_BITS, packed[i] & ((1 << OUTCOME_BITS) - 1)
        if cell != before:
            row, before = row + 1, cell
            who[0, row], who[1, row], who[2, row] = cell >> 2 * bits, cell >> bits & mask, cell & mask
        count = weight[i] if len(weight) else 1.0
        n[row] += count
        s[row] += 0.5 * code * count
        ties[row] += count if code == 1 else 0.0
    return who[0], who[1], who[2], n, s, ties
