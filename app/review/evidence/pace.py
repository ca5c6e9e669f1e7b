from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from app.review.evidence.annotator_votes import AnnotatorVotes
from app.review.evidence.schemas import Burst, BusiestHour, Gap, Pace

HASTE = 5.0
"""Seconds. A vote that comes so soon after the last one is hasty: two answers take longer to read."""
_GAPS = (1.0, HASTE, 15.0, 60.0, 300.0, 3600.0)
_HOUR = 3600.0


def measure_pace(votes: AnnotatorVotes) -> Pace:
    """Measure how fast an annotator's votes came."""
    moments = np.sort(_moments(votes.voted, votes.received))
    if len(moments) == 0:
        return Pace(votes=0, median_seconds=None, hasty=None, gaps=[], busiest_hour=None, longest_burst=None)
    gaps = np.diff(moments)
    return Pace(
        votes=len(moments),
        median_seconds=float(np.median(gaps)) if len(gaps) else None,
        hasty=float(np.mean(gaps <= HASTE)) if len(gaps) else None,
        gaps=_count_gaps(gaps),
        busiest_hour=_busiest_hour(moments),
        longest_burst=_longest_burst(moments, gaps),
    )


def _moments(voted: NDArray[np.float64], received: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return when votes were cast; what arrived at the very same moment was sent together, and says nothing."""
    arrived = received[np.isnan(voted) & ~np.isnan(received)]
    values, times = np.unique(arrived, return_counts=True)
    return np.concatenate([voted[~np.isnan(voted)], values[times == 1]])


def _count_gaps(gaps: NDArray[np.float64]) -> list[Gap]:
    counts = np.bincount(np.searchsorted(_GAPS, gaps), minlength=len(_GAPS) + 1).tolist()
    return [Gap(seconds=at_most, votes=votes) for at_most, votes in zip((*_GAPS, None), counts, strict=True)]


def _busiest_hour(moments: NDArray[np.float64]) -> BusiestHour:
    within = np.searchsorted(moments, moments + _HOUR, side="left") - np.arange(len(moments))
    first = int(np.argmax(within))
    return BusiestHour(since=_moment(moments[first]), votes=int(within[first]))


def _longest_burst(moments: NDArray[np.float64], gaps: NDArray[np.float64]) -> Burst | None:
    edges = np.flatnonzero(np.concatenate([[True], gaps > HASTE, [True]]))
    length = np.diff(edges)
    longest = int(np.argmax(length))
    if length[longest] == 1:
        return None
    first, last = edges[longest], edges[longest + 1] - 1
    return Burst(since=_moment(moments[first]), votes=int(length[longest]), seconds=moments[last] - moments[first])


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(float(seconds), UTC)
