from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from app.rating.data.arrays import AnyInts, Floats, Indices
from app.rating.data.votes import Cells
from app.rating.detection.null_model import NullModel

COPIES = 0.9  # share of votes that a copier copies
WORTH_A_LOOK = 4.0  # log-likelihood ratio, in either order, from which a pair is examined
BLOCK = 512  # annotators compared with all others together


@dataclass(frozen=True)
class Copies:
    """The evidence that annotators copy each other.

    Attributes
    ----------
    log_ratio : log of the mean, over all others, of the likelihood ratio of "copies this annotator" against "votes
        independently", shape (n_annotators,); at least log(1/2)
    source : the annotator most likely copied, shape (n_annotators,); −1 for none
    """

    log_ratio: Floats
    source: Indices


def find_copies(cells: Cells, R: Floats, null_model: NullModel, when: AnyInts | None = None) -> Copies:
    """Compare "gives l's answer on the same pair in nine of ten votes" with "votes independently", for all k and l.

    Parameters
    ----------
    cells, R : as for `fit_null_model`
    when : time of the annotator's first vote on each pair, shape (n_cells,): only the later vote can be a copy. Without
        it the annotators who are copied look like copiers.

    Notes
    -----
    Annotators who judge the *same answers* agree more than the models' scores explain, without copying: where answers
    are shared, use the pair of answers as the cell, or leave this test out (docs/laboratory-attacks.md). Only cells
    whose votes all agree count. Sparse products in blocks of 512 annotators, O(n_annotators² × shared pairs).
    """
    verdict = np.full(len(cells.n), -1)
    for code, total in ((0, cells.n - cells.s), (1, cells.ties), (2, cells.s)):
        verdict[total == cells.n] = code
    clear = np.flatnonzero(verdict >= 0)
    size = cells.n_annotators
    pair = cells.model_a[clear].astype(np.int64) * cells.n_models + cells.model_b[clear]
    pairs, column = np.unique(pair, return_inverse=True)
    row, answer = cells.annotator[clear], verdict[clear]
    p = _probability(cells, R, null_model)[clear, answer]
    gain = np.log((COPIES + (1.0 - COPIES) * p) / p) - np.log1p(
        -COPIES
    )  # of an agreeing vote, relative to a disagreeing one
    shape = (size, 3 * len(pairs))
    agreed = csr_array((gain, (row, 3 * column + answer)), shape=shape)
    answers = csr_array((np.ones(len(row)), (row, 3 * column + answer)), shape=shape)
    met = csr_array((np.ones(len(row)), (row, column)), shape=(size, len(pairs)))
    total, source = np.full(size, 1.0), np.full(size, -1, dtype=np.int64)
    best = np.zeros(size)
    time = None if when is None else csr_array((np.asarray(when)[clear] + 1.0, (row, column)), shape=met.shape)
    for first in range(0, size, BLOCK):
        rows = slice(first, min(first + BLOCK, size))
        ratio = (agreed[rows] @ answers.T + np.log1p(-COPIES) * (met[rows] @ met.T)).tocoo()
        look = (ratio.data > WORTH_A_LOOK) & (ratio.row + first != ratio.col)
        for k, other, log in zip(ratio.row[look] + first, ratio.col[look], ratio.data[look], strict=True):
            if time is not None:
                log = _later(agreed, answers, time, int(k), int(other))  # noqa: PLW2901  what the order leaves of it
            total[k] += np.exp(min(log, 600.0))
            if log > best[k]:
                best[k], source[k] = log, other
    return Copies(np.log(total / max(size - 1, 1)), source)


def _later(agreed: csr_array, answers: csr_array, time: csr_array, k: int, other: int) -> float:
    """Return the log ratio of "k copies the other" over the pairs on which k voted later."""
    mine, theirs = time[[k]].toarray()[0], time[[other]].toarray()[0]
    later = np.flatnonzero((theirs > 0) & (mine > theirs))
    columns = (3 * later[:, None] + np.arange(3)).ravel()
    same = agreed[[k]].toarray()[0][columns] @ answers[[other]].toarray()[0][columns]
    return float(same + np.log1p(-COPIES) * len(later))


def _probability(cells: Cells, R: Floats, null_model: NullModel) -> Floats:
    """Return the probabilities of b, tie and a for an honest annotator of each cell, shape (n_cells, 3)."""
    R = np.nan_to_num(R)
    half = 0.5 * null_model.ability[cells.annotator] * (R[cells.model_a] - R[cells.model_b])
    weight = np.stack([np.exp(-half), null_model.tie_propensity[cells.annotator], np.exp(half)], axis=1)
    probability: Floats = weight / weight.sum(axis=1, keepdims=True)
    return probability
