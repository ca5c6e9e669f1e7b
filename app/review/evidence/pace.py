import math
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from app.review.evidence.schemas import Burst, BusiestHour, Gap, Pace

HASTE = 5.0
"""Seconds. A vote that comes so soon after the last one is hasty: two answers take longer to read."""
UNUSUAL = 3.0
"""Standard deviations of chance."""
_HURRIED = 0.1  # share of hasty votes that is worth a sentence
_MOST = 0.5  # share of votes with the timestamp of another, from which timestamps are those of sittings
_LEAST_GAPS, _LEAST_OTHERS = 20, 10  # of others, and how many of them, for a comparison
_LEAST_VARIANCE = 0.01  # of a share: no share is known to be exactly 0 or 1

Times = NDArray[np.float64]
_GAPS = (1.0, HASTE, 15.0, 60.0, 300.0, 3600.0)
_HOUR = 3600.0


def measure_pace(voted: Times, received: Times, others: Sequence[tuple[Times, Times]] = ()) -> Pace:
    """Measure how fast an annotator's votes came, and compare it with other annotators.

    What is hasty depends on the arena: where one timestamp covers the votes of a sitting, every annotator is. So the
    share of hasty votes is held against the median of the others. `z` is their difference in standard deviations: of
    the others (1.4826 × the median deviation) and of chance. Few others say nothing, and neither do an annotator's
    votes where most of them share their timestamp with another.

    `voted`, `received`: when the votes were cast and when they arrived, in seconds since 1970, NaN where unknown.
    `others`: the same of other annotators, one pair of arrays each.
    """
    moments = _moments(voted, received)
    if len(moments) == 0:
        return Pace(votes=0, gaps=[])
    gaps = np.diff(moments)
    shares = [
        float(np.mean(found <= HASTE)) for pair in others if len(found := np.diff(_moments(*pair))) >= _LEAST_GAPS
    ]
    typical = float(np.median(shares)) if len(shares) >= _LEAST_OTHERS else None
    hasty = float(np.mean(gaps <= HASTE)) if len(gaps) else None
    z = None
    if hasty is not None and typical is not None:
        between = 1.4826 * float(np.median(np.abs(np.array(shares) - typical)))
        z = (hasty - typical) / math.hypot(
            between, math.sqrt(max(typical * (1 - typical), _LEAST_VARIANCE) / len(gaps))
        )
    shared = float(np.mean(gaps == 0)) if len(gaps) else 0.0
    return Pace(
        votes=len(moments),
        median_seconds=float(np.median(gaps)) if len(gaps) else None,
        hasty=hasty,
        typical_hasty=typical,
        hasty_z=z,
        hurried=hasty is not None and hasty >= _HURRIED and (z >= UNUSUAL if z is not None else shared < _MOST),
        gaps=_count_gaps(gaps),
        busiest_hour=_busiest_hour(moments),
        longest_burst=_longest_burst(moments, gaps),
    )


def _moments(voted: Times, received: Times) -> Times:
    """Return when votes were cast, in order. What arrived at the same moment was sent together, and says nothing."""
    arrived = received[np.isnan(voted) & ~np.isnan(received)]
    values, times = np.unique(arrived, return_counts=True)
    return np.sort(np.concatenate([voted[~np.isnan(voted)], values[times == 1]]))


def _count_gaps(gaps: Times) -> list[Gap]:
    counts = np.bincount(np.searchsorted(_GAPS, gaps), minlength=len(_GAPS) + 1).tolist()
    return [Gap(seconds=at_most, votes=votes) for at_most, votes in zip((*_GAPS, None), counts, strict=True)]


def _busiest_hour(moments: Times) -> BusiestHour:
    within = np.searchsorted(moments, moments + _HOUR, side="left") - np.arange(len(moments))
    first = int(np.argmax(within))
    return BusiestHour(since=_moment(moments[first]), votes=int(within[first]))


def _longest_burst(moments: Times, gaps: Times) -> Burst | None:
    edges = np.flatnonzero(np.concatenate([[True], gaps > HASTE, [True]]))
    length = np.diff(edges)
    longest = int(np.argmax(length))
    if length[longest] == 1:
        return None
    first, last = edges[longest], edges[longest + 1] - 1
    return Burst(since=_moment(moments[first]), votes=int(length[longest]), seconds=moments[last] - moments[first])


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(float(seconds), UTC)
