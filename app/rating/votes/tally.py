"""Compiled loops over votes. A vote is packed into one integer; these sort by annotator, pair and outcome."""

from typing import NamedTuple

import numpy as np

from app.rating.arrays import AnyInts, Floats, Indices, Ints
from app.rating.compiled import compiled

OUTCOME_BITS = 2  # the lowest bits: 0 the lower-numbered model lost, 1 a tie, 2 it won
DIGIT_BITS = 8


class NewCells(NamedTuple):
    """The arrays of `Cells` that are to be filled."""

    annotator: Ints
    model_a: Ints
    model_b: Ints
    n: Floats
    s: Floats
    ties: Floats


@compiled
def pack_votes(
    first: int, last: int, annotator: AnyInts, model_a: AnyInts, model_b: AnyInts, outcome: Floats,
    n_annotators: int, n_models: int, model_bits: int, packed: Indices,
) -> bool:  # fmt: skip
    """Set packed[first … last−1]; return False at the first malformed vote, else True."""
    for vote in range(first, last):
        k, a, b, W = annotator[vote], model_a[vote], model_b[vote], outcome[vote]
        if k < 0 or k >= n_annotators or a < 0 or a >= n_models or b < 0 or b >= n_models or a == b:
            return False
        if not 0.0 <= W <= 1.0:  # true of NaN too
            return False
        code = int(2.0 * W)
        if code != 2.0 * W:
            return False
        # the side is random, so a branch on it would be mispredicted half the time: these compile to none
        code = code if a < b else 2 - code
        packed[vote] = (((((k << model_bits) | min(a, b)) << model_bits) | max(a, b)) << OUTCOME_BITS) | code
    return True


@compiled
def sort_packed(packed: Indices, bits: int) -> Indices:
    """Return non-negative integers of at most `bits` bits in ascending order; overwrites `packed`.

    Radix sort by 8 bits at a time, from the lowest: numpy's sort, which compares, takes 2.5 to 3.5 times as long.
    """
    passes = (bits + DIGIT_BITS - 1) // DIGIT_BITS
    digit = (1 << DIGIT_BITS) - 1
    places = np.zeros((passes, digit + 1), dtype=np.int64)
    for value in packed:
        for i in range(passes):
            places[i, (value >> (i * DIGIT_BITS)) & digit] += 1
    other = np.empty_like(packed)
    for i in range(passes):
        place, before = places[i], 0
        for j in range(digit + 1):
            before, place[j] = before + place[j], before
        for value in packed:
            j = (value >> (i * DIGIT_BITS)) & digit
            other[place[j]] = value
            place[j] += 1
        packed, other = other, packed
    return packed


@compiled
def count_cells(first: int, last: int, packed: Indices) -> int:
    """Count the cells whose first vote is among the sorted votes first … last−1."""
    cells = 0
    for vote in range(first, last):
        if vote == 0 or packed[vote] >> OUTCOME_BITS != packed[vote - 1] >> OUTCOME_BITS:
            cells += 1
    return cells


@compiled
def fill_cells(
    first: int, last: int, packed: Indices, weight: Floats, model_bits: int, cell: int, new: NewCells
) -> None:
    """Write the cells whose first vote is among the sorted votes first … last−1, from row `cell` on.

    An empty `weight` counts every vote once.
    """
    mask = (1 << model_bits) - 1
    vote = first
    while vote < last:
        name = packed[vote] >> OUTCOME_BITS
        if vote > 0 and name == packed[vote - 1] >> OUTCOME_BITS:
            vote += 1  # of a cell whose first vote comes before `first`
            continue
        total, won, tied = 0.0, 0.0, 0.0
        while vote < len(packed) and packed[vote] >> OUTCOME_BITS == name:
            count = weight[vote] if len(weight) else 1.0
            code = packed[vote] & ((1 << OUTCOME_BITS) - 1)
            total += count
            won += 0.5 * code * count
            if code == 1:
                tied += count
            vote += 1
        new.model_b[cell] = name & mask
        new.model_a[cell] = (name >> model_bits) & mask
        new.annotator[cell] = name >> (2 * model_bits)
        new.n[cell], new.s[cell], new.ties[cell] = total, won, tied
        cell += 1


@compiled
def tabulate_cells(
    first: int, last: int, model_a: Ints, model_b: Ints, n: Floats, s: Floats, ties: Floats, share: Floats,
    n_models: int, table: Floats,
) -> None:  # fmt: skip
    """Add n, s and ties of cells first … last−1, times their share, to `table`, shape (n_models², 3).

    An empty `share` means 1.
    """
    for cell in range(first, last):
        factor = share[cell] if len(share) else 1.0
        row = table[model_a[cell] * n_models + model_b[cell]]
        row[0] += factor * n[cell]
        row[1] += factor * s[cell]
        row[2] += factor * ties[cell]
