"""How many votes of one annotator count in one day."""

import numpy as np
from numpy.typing import NDArray

from app.votes.arrays import NO_DAY, VoteDates


def over_quota(annotator_id: NDArray[np.int32], dates: VoteDates, votes_per_day: int) -> NDArray[np.bool_]:
    """Tell which votes come after an annotator's first `votes_per_day` of their day (UTC), in the order of their ids.

    A vote whose day is not known is under no quota. Only the days that are too full are sorted, so that a quota that
    hardly anyone reaches costs little more than one sort of integers.
    """
    # One number for annotator and day: both have 32 bits.
    group = (annotator_id.astype(np.int64) << 32) + dates.day
    values, counts = np.unique(group, return_counts=True)
    full = values[counts > votes_per_day]
    over = np.zeros(len(group), dtype=np.bool_)
    if not len(full):
        return over
    place = np.minimum(np.searchsorted(full, group), len(full) - 1)
    suspects = np.flatnonzero((full[place] == group) & (dates.day != NO_DAY))
    order = np.lexsort((dates.id_low[suspects], dates.id_high[suspects], group[suspects]))
    suspects = suspects[order]
    _, first, size = np.unique(group[suspects], return_index=True, return_counts=True)
    position = np.arange(len(suspects)) - np.repeat(first, size)
    over[suspects[position >= votes_per_day]] = True
    return over
