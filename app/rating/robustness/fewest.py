"""The fewest votes, and annotators, whose removal swaps two models, for many pairs of them in one pass."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from app.rating.data.arrays import Floats, Indices
from app.rating.data.threads import map_parts, split
from app.rating.data.votes import WORTH_A_THREAD
from app.rating.inference.estimate import Estimate
from app.rating.inference.influence import Influence
from app.rating.inference.influence_kernels import collect_strong, times_columns
from app.rating.robustness.strongest import enough, strongest_votes
from app.rating.solver.gauge import ELO_PER_NATURAL

PAIRS_AT_ONCE = 128
SAMPLE = 8192  # cells from which it is guessed how strong the votes are that decide a pair
RANK = 8  # of the sample's votes, at least that many must be below the guess, for it to be one
MARGIN = 3.0  # times the gap that votes above the guess are to add up to
LARGEST_SHARE = 1 / 32  # of all cells, beyond which a pair's votes are looked at alone
ROUNDING = 1e-9


def fewest_votes(influence: Influence, upper: Indices, lower: Indices, gap: Floats) -> Indices:
    """Find for every pair the smallest number of votes whose influences on R_upper − R_lower add up to over its gap.

    Parameters
    ----------
    upper, lower : of models, indices as in `influence.estimate.small`, shape (n_pairs,)
    gap : R_upper − R_lower, shape (n_pairs,)

    Returns
    -------
    int array, shape (n_pairs,), −1 where all the votes' influences do not add up to it

    Notes
    -----
    A pass over the cells for up to 128 pairs: votes stronger than a guess, from a sample of the cells, are collected
    and sorted. Where those do not add up to the gap, and where they would be too many, all votes are looked at for
    that pair alone (`strongest_votes`). O(n_cells × n_pairs), memory O(n_annotators × 128).
    """
    blocks = [slice(first, first + PAIRS_AT_ONCE) for first in range(0, len(gap), PAIRS_AT_ONCE)]
    found = [_fewest(_Pairs(influence, upper[block], lower[block]), gap[block]) for block in blocks]
    return np.concatenate([np.zeros(0, dtype=np.int64), *found])


def fewest_annotators(result: Estimate, change: Floats, upper: Indices, lower: Indices, gap: Floats) -> Indices:
    """Find for every pair the smallest number of annotators without whom the two come together by over their gap.

    As `fewest_votes`, from what `leave_annotators_out` gives.
    """
    found = np.full(len(gap), -1)
    by_model = np.ascontiguousarray(change.T)
    for pair, (i, j) in enumerate(zip(upper, lower, strict=True)):
        held = (by_model[j] - by_model[i]) / (ELO_PER_NATURAL * result.unit[i])
        total = np.cumsum(-np.sort(-held[held > 0]))  # NaN, of whom nothing is known, is not
        at = int(np.searchsorted(total, gap[pair], side="right"))
        if at < len(total):
            found[pair] = at + 1
    return found


@dataclass(frozen=True)
class _Found:
    """Verdicts that hold up pairs, ordered by pair, the strongest of each first.

    Attributes
    ----------
    starts : of every pair's, shape (n_pairs + 1,)
    held, size : how much each such vote holds up, and how many there are
    total : how much all verdicts that were looked at hold up each pair, shape (n_pairs,)
    """

    starts: Indices
    held: Floats
    size: Floats
    total: Floats


class _Pairs:
    """What a look at the votes for some pairs needs to know of them."""

    def __init__(self, influence: Influence, upper: Indices, lower: Indices) -> None:
        self.influence, self.upper, self.lower = influence, upper, lower
        observed, cells = influence.observed, influence.estimate.small.cells
        contrasts = np.zeros((cells.n_models, len(upper)))
        each = np.arange(len(upper))
        contrasts[upper, each], contrasts[lower, each] = 1.0, -1.0
        self._Y = np.ascontiguousarray(observed.solve(contrasts))
        product, rows = np.empty((cells.n_annotators, len(upper))), observed.likelihood.rows
        map_parts(
            lambda part: times_columns(
                *part, rows.starts, cells.model_a, cells.model_b, observed.point.cross, self._Y, product
            ),
            rows.parts,
        )
        self._Q = np.ascontiguousarray(observed.arrow.project(product))

    def collect(self, above: Floats, *, stride: int, room: int) -> _Found:
        """Return the verdicts in every stride-th cell that hold up a pair by more than `above`.

        Parameters
        ----------
        room : about how many are expected, of each pair
        """
        cells, fit = self.influence.estimate.small.cells, self.influence.estimate.solution.fit

        def work(part: tuple[int, int]) -> tuple[NDArray[np.int16], Floats, Floats, Floats]:
            space = room * len(above)
            while True:
                total = np.zeros(len(above))
                pair, held, size = np.empty(space, dtype=np.int16), np.empty(space), np.empty(space)
                number = collect_strong(
                    part[0] + -part[0] % stride, part[1], stride, cells.annotator, cells.model_a, cells.model_b,
                    cells.n, cells.s, cells.ties, fit.R, fit.theta, self._Y, self._Q, above, total, pair, held, size,
                )  # fmt: skip
                if number <= space:
                    return pair[:number], held[:number], size[:number], total
                space = number

        parts = map_parts(work, split(len(cells.n), WORTH_A_THREAD))
        pair, held, size = (np.concatenate(column) for column in list(zip(*parts, strict=True))[:3])
        order = np.argsort(pair, kind="stable")
        starts = np.searchsorted(pair[order], np.arange(len(above) + 1))
        for first, last in pairwise(starts.tolist()):
            these = order[first:last]
            order[first:last] = these[np.argsort(-held[these])]
        return _Found(starts, held[order], size[order], np.sum([part[3] for part in parts], axis=0))


def _fewest(pairs: _Pairs, gap: Floats) -> Indices:
    cells = len(pairs.influence.estimate.small.cells.n)
    stride = max(1, cells // SAMPLE)
    sample = pairs.collect(np.zeros(len(gap)), stride=stride, room=min(SAMPLE, cells))
    if stride == 1:
        return np.array([_count(sample, pair, gap[pair]) for pair in range(len(gap))])
    guesses = [_guess(sample, pair, gap[pair] / stride, LARGEST_SHARE * cells / stride) for pair in range(len(gap))]
    found = pairs.collect(np.array(guesses), stride=1, room=2 * RANK * stride)
    result = np.full(len(gap), -1)
    for pair in np.flatnonzero(found.total > gap * (1.0 - ROUNDING)).tolist():
        result[pair] = _count(found, pair, gap[pair])
        if result[pair] < 0:  # stronger than the guess are too few
            held, verdict = strongest_votes(pairs.influence, pairs.upper[pair], pairs.lower[pair], gap[pair])
            result[pair] = enough(held, pairs.influence.verdicts.size[verdict], gap[pair])
    return result


def _count(found: _Found, pair: int, gap: float) -> int:
    these = slice(found.starts[pair], found.starts[pair + 1])
    return enough(found.held[these], found.size[these], gap)


def _guess(sample: _Found, pair: int, gap: float, most: float) -> float:
    """How strong the votes are that add up to some times the gap, both as in the sample; ∞ if they are too many."""
    these = slice(sample.starts[pair], sample.starts[pair + 1])
    held = sample.held[these]
    rank = max(RANK, int(np.searchsorted(np.cumsum(held * sample.size[these]), MARGIN * gap)))
    return float(held[rank]) if rank < min(len(held), most) else np.inf
