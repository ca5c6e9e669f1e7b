"""The votes, and the annotators, with the largest influence on the difference of two models."""

from collections.abc import Callable

import numpy as np

from app.rating.data.arrays import Floats, Indices
from app.rating.inference.influence import Influence
from app.rating.inference.rating import Rating
from app.rating.inference.vote_changes import DROPPED, VoteChange
from app.rating.solver.gauge import ELO_PER_NATURAL

FIRST_LOOK = 1024  # vote groups that are sorted at first


def strongest_votes(
    influence: Influence, i: int, j: int, gap: float, change: VoteChange = DROPPED
) -> tuple[Floats, Indices]:
    """Return the influences on R_i − R_j and their vote groups, the largest first, until they add up to the gap."""
    contrast = np.zeros(influence.rating.small.cells.n_models)
    contrast[i], contrast[j] = 1.0, -1.0
    influences, size = influence.of_votes(contrast, change), influence.vote_groups(change).size
    return _largest(influences, lambda top: float(np.maximum(influences[top], 0.0) @ size[top]) > gap)


def strongest_annotators(result: Rating, change: Floats, i: int, j: int) -> tuple[Floats, Indices]:
    """Return the influences on R_i − R_j, in the solver's units, and their annotators, the largest first.

    Parameters
    ----------
    change : from `leave_annotators_out`
    """
    influences = np.nan_to_num((change[:, j] - change[:, i]) / (ELO_PER_NATURAL * result.unit[i]), nan=-np.inf)
    who = np.argsort(-influences, kind="stable")[: np.count_nonzero(influences > 0)]
    return influences[who], who


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
