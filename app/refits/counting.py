"""How many votes of an annotator count: a ranking, whose pairs share an id, is one."""

import numpy as np
import polars as pl

from app.rating.arrays import Floats, Mask
from app.refits.fit.interface import Ids
from app.votes.arrays import NO_DAY, VoteDates


def shares(dates: VoteDates) -> Floats:
    """Return one over the number of pairs of each vote's ranking, 1 for other votes."""
    ids = pl.DataFrame({"high": dates.id_high, "low": dates.id_low})
    share: Floats = ids.select(1.0 / pl.len().over("high", "low")).to_series().to_numpy()
    return share


def over_quota(annotator_id: Ids, dates: VoteDates, votes_per_day: int) -> Mask:
    """Return which votes come after an annotator's first `votes_per_day` of their day (UTC), in the order of their ids.

    A vote whose day is not known is under no quota. A ranking counts once.

    Notes
    -----
    Only days with too many votes are sorted: a quota that few annotators reach costs little more than one sort.
    """
    # One number for annotator and day: both have 32 bits.
    group = (annotator_id.astype(np.int64) << 32) + dates.day
    values, counts = np.unique(group, return_counts=True)
    full = values[counts > votes_per_day]
    over = np.zeros(len(group), dtype=np.bool_)
    if not len(full):
        return over
    place = np.minimum(np.searchsorted(full, group), len(full) - 1)
    on_full_day = np.flatnonzero((full[place] == group) & (dates.day != NO_DAY))
    order = np.lexsort((dates.id_low[on_full_day], dates.id_high[on_full_day], group[on_full_day]))
    on_full_day = on_full_day[order]
    high, low = dates.id_high[on_full_day], dates.id_low[on_full_day]
    number = np.cumsum(np.append(True, (high[1:] != high[:-1]) | (low[1:] != low[:-1])))
    _, first, size = np.unique(group[on_full_day], return_index=True, return_counts=True)
    position = number - np.repeat(number[first], size)
    over[on_full_day[position >= votes_per_day]] = True
    return over
