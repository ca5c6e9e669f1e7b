"""The fewest changes of votes, and the fewest annotators, that swap two models, for many pairs in one pass."""

import numpy as np

from app.rating.data.arrays import Floats, Indices
from app.rating.data.threads import map_parts, split
from app.rating.inference.influence import Influence
from app.rating.inference.rating import Rating
from app.rating.inference.vote_changes import DROPPED, VERDICTS, VoteChange
from app.rating.robustness.kernels import collect_largest, times_columns
from app.rating.robustness.strongest import enough, strongest_votes
from app.rating.solver.gauge import ELO_PER_NATURAL

PAIRS_AT_ONCE = 128
PAIRS_WORTH_A_THREAD = 32
ROOM = 1024  # kinds of votes kept for a pair; a pair that needs more is examined alone


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


def fewest_annotators(result: Rating, change: Floats, upper: Indices, lower: Indices, gap: Floats) -> Indices:
    """Find for every pair the smallest number of annotators whose influences on it exceed its gap.

    Parameters
    ----------
    change : from `leave_annotators_out`
    upper, lower, gap : as for `fewest_votes`
    """
    found = np.full(len(gap), -1)
    by_model = np.ascontiguousarray(change.T)
    for pair, (i, j) in enumerate(zip(upper, lower, strict=True)):
        influence = (by_model[j] - by_model[i]) / (ELO_PER_NATURAL * result.unit[i])
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
    observed, cells, fit = influence.observed, influence.rating.small.cells, influence.rating.fit
    contrasts, each = np.zeros((cells.n_models, len(gap))), np.arange(len(gap))
    contrasts[upper, each], contrasts[lower, each] = 1.0, -1.0
    Y, rows = np.ascontiguousarray(observed.solve(contrasts)), observed.likelihood.rows
    product = np.empty((cells.n_annotators, len(gap)))
    map_parts(
        lambda part: times_columns(*part, rows.starts, cells.model_a, cells.model_b, observed.point.cross, Y, product),
        rows.parts,
    )
    Q = np.ascontiguousarray(observed.arrow.project(product))

    weight, possible, residual = fit.weights(cells), change.possible(cells), change.outcome * VERDICTS + change.constant
    kept, size = np.zeros((len(gap), ROOM)), np.zeros((len(gap), ROOM))
    map_parts(
        lambda part: collect_largest(
            *part, cells.annotator, cells.model_a, cells.model_b, possible, residual, change.expected, weight,
            fit.R, fit.theta, Y, Q, gap, kept, size,
        ),
        split(len(gap), PAIRS_WORTH_A_THREAD),
    )  # fmt: skip
    return kept, size
