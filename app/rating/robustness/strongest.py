"""The votes, and the annotators, that hold up one model over another most, the strongest first."""

from collections.abc import Callable

import numpy as np

from app.rating.data.arrays import Floats, Indices
from app.rating.inference.estimate import Estimate
from app.rating.inference.influence import Influence
from app.rating.solver.gauge import ELO_PER_NATURAL

FIRST_LOOK = 1024  # votes with the most influence that are sorted at first


def strongest_votes(influence: Influence, i: int, j: int, gap: float) -> tuple[Floats, Indices]:
    """Return the verdicts that hold up i over j, at least until they add up to the gap: how much, and which."""
    contrast = np.zeros(influence.estimate.small.cells.n_models)
    contrast[i], contrast[j] = 1.0, -1.0
    held, size = influence.of_votes(contrast), influence.verdicts.size
    return _largest(held, lambda top: float(np.maximum(held[top], 0.0) @ size[top]) > gap)


def strongest_annotators(result: Estimate, change: Floats, i: int, j: int) -> tuple[Floats, Indices]:
    """Return the annotators who hold up i over j: how much, in the solver's units, and who.

    Parameters
    ----------
    change : from `leave_annotators_out`
    """
    held = np.nan_to_num((change[:, j] - change[:, i]) / (ELO_PER_NATURAL * result.unit[i]), nan=-np.inf)
    who = np.argsort(-held, kind="stable")[: np.count_nonzero(held > 0)]
    return held[who], who


def enough(held: Floats, size: Floats, gap: float) -> int:
    """How many votes, taken in order, add up to more than the gap; −1 if all do not."""
    total = np.cumsum(held * size)
    at = int(np.searchsorted(total, gap, side="right"))
    if at >= len(held):
        return -1
    before = float(total[at - 1]) if at else 0.0
    return int(size[:at].sum()) + max(1, int(np.ceil((gap - before) / held[at])))


def _largest(held: Floats, is_enough: Callable[[Indices], bool]) -> tuple[Floats, Indices]:
    """Return what is above 0, the largest first, at least until it is enough, and where it stands."""
    look = FIRST_LOOK
    while True:
        look = min(look, len(held))
        top = np.argpartition(-held, look - 1)[:look] if look < len(held) else np.arange(len(held))
        if look == len(held) or is_enough(top):
            top = top[np.argsort(-held[top], kind="stable")]
            top = top[held[top] > 0]
            return held[top], top
        look *= 8
