"""The fewest changes of votes, and the fewest annotators, that swap two models, for many pairs in one pass."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.compiled import compiled
from app.rating.threads import map_parts, split
from app.rating.uncertainty.influence import Influence
from app.rating.uncertainty.vote_changes import DROPPED, VERDICTS, VoteChange
from app.rating.units import ELO_PER_NATURAL
from app.rating.votes.cells import CellArrays

PAIRS_AT_ONCE = 128
PAIRS_WORTH_A_THREAD = 32
ROOM = 1024  # kinds of votes kept for a pair; a pair that needs more is examined alone


FIRST_LOOK = 1024  # vote groups that are sorted at first


class Ways(NamedTuple):
    """The changes of a vote, for a compiled loop: one of a kind takes residual[kind] + expected·p from its residual.

    Attributes
    ----------
    possible : how many votes of each kind can be changed so, shape (n_cells, 3)
    residual : by kind, shape (3,)
    pull, along : of `Influence`
    """

    possible: Floats
    residual: Floats
    expected: float
    pull: Floats
    along: Floats


def fewest_votes(
    influence: Influence, upper: Indices, lower: Indices, gap: Floats, change: VoteChange = DROPPED
) -> Indices:
    """Find for every pair the smallest number of changed votes whose influences on R_upper − R_lower exceed its gap.

    Parameters
    ----------
    upper, lower : of models, indices as in `influence.rating.small`, shape (n_pairs,)
    gap : R_upper − R_lower, shape (n_pairs,)
    change : how a vote is changed

    Returns
    -------
    int array, shape (n_pairs,), −1 where the influences of all votes do not exceed it

    Notes
    -----
    One pass over the cells for up to 128 pairs, which keeps for each pair the largest influences that exceed its gap.
    Where they are more than the room for them, all votes are examined for that pair alone (`strongest_votes`).
    O(n_cells × n_pairs), memory O(n_annotators × 128).
    """
    found = np.full(len(gap), -1)
    for first in range(0, len(gap), PAIRS_AT_ONCE):
        block = slice(first, first + PAIRS_AT_ONCE)
        kept, size = _largest_votes(influence, upper[block], lower[block], gap[block], change)
        order = np.argsort(-kept, axis=1)
        kept, size = np.take_along_axis(kept, order, axis=1), np.take_along_axis(size, order, axis=1)
        found[block] = [enough(*row) for row in zip(kept, size, gap[block], strict=True)]
    for pair in np.flatnonzero(found < 0):
        kept, group = strongest_votes(influence, upper[pair], lower[pair], gap[pair], change)
        found[pair] = enough(kept, influence.vote_groups(change).size[group], gap[pair])
    return found


def fewest_annotators(change: Floats, upper: Indices, lower: Indices, gap: Floats) -> Indices:
    """Find for every pair the smallest number of annotators whose influences on it exceed its gap.

    Parameters
    ----------
    change : from `leave_annotators_out`
    upper, lower, gap : as for `fewest_votes`
    """
    found = np.full(len(gap), -1)
    by_model = np.ascontiguousarray(change.T)
    for pair, (i, j) in enumerate(zip(upper, lower, strict=True)):
        influence = (by_model[j] - by_model[i]) / ELO_PER_NATURAL
        total = np.cumsum(-np.sort(-influence[influence > 0]))  # leaves out NaN, where the influence is unknown
        at = int(np.searchsorted(total, gap[pair], side="right"))
        if at < len(total):
            found[pair] = at + 1
    return found


def _largest_votes(
    influence: Influence, upper: Indices, lower: Indices, gap: Floats, change: VoteChange
) -> tuple[Floats, Floats]:
    """Return the largest influences of a changed vote on each pair, and how many such votes there are; then zeros.

    They exceed the gap together, or are 0. Shape (n_pairs, ROOM).
    """
    cells, fit = influence.rating.small.cells, influence.rating.fit
    contrasts, each = np.zeros((cells.n_models, len(gap))), np.arange(len(gap))
    contrasts[upper, each], contrasts[lower, each] = 1.0, -1.0
    Y = np.ascontiguousarray(influence.solve(contrasts))
    Q = np.ascontiguousarray(influence.shares(Y))

    residual = change.outcome * VERDICTS + change.constant
    ways = Ways(change.possible(cells), residual, change.expected, influence.pull, influence.along)
    kept, size = np.zeros((len(gap), ROOM)), np.zeros((len(gap), ROOM))
    map_parts(
        lambda part: collect_largest(
            *part, cells.arrays, ways, fit.R, fit.theta, Y, Q, gap, kept, size
        ),
        split(len(gap), PAIRS_WORTH_A_THREAD),
    )  # fmt: skip
    return kept, size


def strongest_votes(
    influence: Influence, i: int, j: int, gap: float, change: VoteChange = DROPPED
) -> tuple[Floats, Indices]:
    """Return the influences on R_i − R_j and their vote groups, the largest first, until they add up to the gap."""
    contrast = np.zeros(influence.rating.small.cells.n_models)
    contrast[i], contrast[j] = 1.0, -1.0
    influences, size = influence.of_votes(contrast, change), influence.vote_groups(change).size
    return _largest(influences, lambda top: float(np.maximum(influences[top], 0.0) @ size[top]) > gap)


def enough(influences: Floats, size: Floats, gap: float) -> int:
    """Return how many votes, taken in order, exceed the gap; −1 if all together do not."""
    total = np.cumsum(influences * size)
    at = int(np.searchsorted(total, gap, side="right"))
    if at >= len(influences):
        return -1
    before = float(total[at - 1]) if at else 0.0
    return int(size[:at].sum()) + max(1, int(np.ceil((gap - before) / influences[at])))


def _largest(influences: Floats, is_enough: Callable[[Indices], bool]) -> tuple[Floats, Indices]:
    """Return the positive influences and their places, the largest first, at least until they are enough."""
    look = FIRST_LOOK
    while True:
        look = min(look, len(influences))
        top = np.argpartition(-influences, look - 1)[:look] if look < len(influences) else np.arange(len(influences))
        if look == len(influences) or is_enough(top):
            top = top[np.argsort(-influences[top], kind="stable")]
            top = top[influences[top] > 0]
            return influences[top], top
        look *= 8


@compiled
def collect_largest(
    first: int, last: int, cells: CellArrays, ways: Ways, R: Floats, theta: Floats, Y: Floats, Q: Floats, gap: Floats,
    influence: Floats, size: Floats,
) -> None:  # fmt: skip
    """Set rows first … last−1 of influence and size to the largest influences of a vote on a pair, and their numbers.

    The column of a pair in Y (n_models, n_pairs) and Q (n_annotators, n_pairs) is y and q of `influence_by_vote`. A row
    is a heap, the smallest influence first, with zeros after the last. It holds no more groups of votes than exceed the
    pair's gap together, and is 0 where there is no room for so many.
    """
    annotator, model_a, model_b = cells.annotator, cells.model_a, cells.model_b
    pull, along, possible = ways.pull, ways.along, ways.possible
    residual, expected = ways.residual, ways.expected
    room, pairs = influence.shape[1], last - first
    moved, least, total = np.empty(pairs), np.zeros(pairs), np.zeros(pairs)
    used = np.zeros(pairs, dtype=np.int64)
    for cell in range(len(annotator)):
        k, a, b = annotator[cell], model_a[cell], model_b[cell]
        y_a, y_b, q, ability, d = Y[a, first:last], Y[b, first:last], Q[k, first:last], theta[k], R[a] - R[b]
        for p in range(pairs):
            moved[p] = pull[cell] * (y_a[p] - y_b[p]) - along[cell] * d * q[p]
        chance = 1.0 / (1.0 + math.exp(-ability * d))
        for kind in range(3):
            count = possible[cell, kind]
            if count <= 0.0:
                continue
            taken, found = residual[kind] + expected * chance, 0
            for p in range(pairs):  # without a branch: nearly always none is found
                found += taken * moved[p] > least[p]
            for p in range(pairs if found else 0):
                value = taken * moved[p]
                if value <= least[p]:
                    continue
                values, sizes = influence[first + p], size[first + p]
                used[p], total[p] = keep(values, sizes, used[p], total[p], gap[first + p], value, count)
                least[p] = values[0] if used[p] == room or total[p] > gap[first + p] else 0.0
    for p in range(pairs):
        if total[p] <= gap[first + p]:
            influence[first + p], size[first + p] = 0.0, 0.0


@compiled
def keep(
    values: Floats, sizes: Floats, used: int, total: float, gap: float, value: float, count: float
) -> tuple[int, float]:
    """Put an entry into a heap, and take out what is not needed to exceed the gap; return its length and its total."""
    if used == len(values):
        total -= values[0] * sizes[0]
        used -= 1
        pop(values, sizes, used)
    push(values, sizes, used, value, count)
    total += value * count
    used += 1
    while used > 1 and total - values[0] * sizes[0] > gap:
        total -= values[0] * sizes[0]
        used -= 1
        pop(values, sizes, used)
    return used, total


@compiled
def push(values: Floats, sizes: Floats, used: int, value: float, count: float) -> None:
    """Add an entry to a heap of `used` entries, the smallest influence first."""
    at = used
    while at > 0 and values[(at - 1) // 2] > value:
        values[at], sizes[at] = values[(at - 1) // 2], sizes[(at - 1) // 2]
        at = (at - 1) // 2
    values[at], sizes[at] = value, count


@compiled
def pop(values: Floats, sizes: Floats, left: int) -> None:
    """Take the first entry out of a heap of left + 1 entries."""
    value, count, at = values[left], sizes[left], 0
    values[left], sizes[left] = 0.0, 0.0
    while 2 * at + 1 < left:
        child = 2 * at + 1
        if child + 1 < left and values[child + 1] < values[child]:
            child += 1
        if values[child] >= value:
            break
        values[at], sizes[at] = values[child], sizes[child]
        at = child
    if left > 0:
        values[at], sizes[at] = value, count
