"""The fewest votes, and the fewest annotators, whose removal swaps two models, for many pairs in one pass."""

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
SAMPLE = 8192  # cells from which the influence of the votes that decide a pair is estimated
RANK = 8  # least number of votes of the sample above the estimate
MARGIN = 3.0  # times the gap that the votes above the estimate should add up to
LARGEST_SHARE = 1 / 32  # of all cells, beyond which a pair is examined alone
ROUNDING = 1e-9


def fewest_votes(influence: Influence, upper: Indices, lower: Indices, gap: Floats) -> Indices:
    """Find for every pair the smallest number of votes whose influences on R_upper − R_lower exceed its gap.

    Parameters
    ----------
    upper, lower : of models, indices as in `influence.estimate.small`, shape (n_pairs,)
    gap : R_upper − R_lower, shape (n_pairs,)

    Returns
    -------
    int array, shape (n_pairs,), −1 where the influences of all votes do not exceed it

    Notes
    -----
    One pass over the cells for up to 128 pairs collects and sorts the votes above a threshold, which a sample of the
    cells gives. Where those do not add up to the gap, or would be too many, all votes are examined for that pair alone
    (`strongest_votes`). O(n_cells × n_pairs), memory O(n_annotators × 128).
    """
    blocks = [slice(first, first + PAIRS_AT_ONCE) for first in range(0, len(gap), PAIRS_AT_ONCE)]
    found = [_fewest(_Pairs(influence, upper[block], lower[block]), gap[block]) for block in blocks]
    return np.concatenate([np.zeros(0, dtype=np.int64), *found])


def fewest_annotators(result: Estimate, change: Floats, upper: Indices, lower: Indices, gap: Floats) -> Indices:
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


@dataclass(frozen=True)
class _Found:
    """Vote groups with influence on pairs, ordered by pair, the strongest of each first.

    Attributes
    ----------
    starts : first group of every pair, shape (n_pairs + 1,)
    influence, size : of one vote of each group, and its number of votes
    total : the positive influences of all votes examined, shape (n_pairs,)
    """

    starts: Indices
    influence: Floats
    size: Floats
    total: Floats


class _Pairs:
    """Some pairs, ready for passes over the votes."""

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
        """Return the vote groups in every stride-th cell with an influence above `above` on a pair.

        Parameters
        ----------
        room : about the expected number, for each pair
        """
        cells, fit = self.influence.estimate.small.cells, self.influence.estimate.solution.fit

        def work(part: tuple[int, int]) -> tuple[NDArray[np.int16], Floats, Floats, Floats]:
            space = room * len(above)
            while True:
                total = np.zeros(len(above))
                pair, influence, size = np.empty(space, dtype=np.int16), np.empty(space), np.empty(space)
                number = collect_strong(
                    part[0] + -part[0] % stride, part[1], stride, cells.annotator, cells.model_a, cells.model_b,
                    cells.n, cells.s, cells.ties, fit.R, fit.theta, self._Y, self._Q, above,
                    total, pair, influence, size,
                )  # fmt: skip
                if number <= space:
                    return pair[:number], influence[:number], size[:number], total
                space = number

        parts = map_parts(work, split(len(cells.n), WORTH_A_THREAD))
        pair, influence, size = (np.concatenate(column) for column in list(zip(*parts, strict=True))[:3])
        order = np.argsort(pair, kind="stable")
        starts = np.searchsorted(pair[order], np.arange(len(above) + 1))
        for first, last in pairwise(starts.tolist()):
            these = order[first:last]
            order[first:last] = these[np.argsort(-influence[these])]
        return _Found(starts, influence[order], size[order], np.sum([part[3] for part in parts], axis=0))


def _fewest(pairs: _Pairs, gap: Floats) -> Indices:
    cells = len(pairs.influence.estimate.small.cells.n)
    stride = max(1, cells // SAMPLE)
    sample = pairs.collect(np.zeros(len(gap)), stride=stride, room=min(SAMPLE, cells))
    if stride == 1:
        return np.array([_count(sample, pair, gap[pair]) for pair in range(len(gap))])
    thresholds = [
        _threshold(sample, pair, gap[pair] / stride, LARGEST_SHARE * cells / stride) for pair in range(len(gap))
    ]
    found = pairs.collect(np.array(thresholds), stride=1, room=2 * RANK * stride)
    result = np.full(len(gap), -1)
    for pair in np.flatnonzero(found.total > gap * (1.0 - ROUNDING)).tolist():
        result[pair] = _count(found, pair, gap[pair])
        if result[pair] < 0:  # the votes above the threshold are too few
            influence, group = strongest_votes(pairs.influence, pairs.upper[pair], pairs.lower[pair], gap[pair])
            result[pair] = enough(influence, pairs.influence.vote_groups.size[group], gap[pair])
    return result


def _count(found: _Found, pair: int, gap: float) -> int:
    these = slice(found.starts[pair], found.starts[pair + 1])
    return enough(found.influence[these], found.size[these], gap)


def _threshold(sample: _Found, pair: int, gap: float, most: float) -> float:
    """Return the influence above which the votes add up to a few times the gap; ∞ if they are too many."""
    these = slice(sample.starts[pair], sample.starts[pair + 1])
    influence = sample.influence[these]
    rank = max(RANK, int(np.searchsorted(np.cumsum(influence * sample.size[these]), MARGIN * gap)))
    return float(influence[rank]) if rank < min(len(influence), most) else np.inf
