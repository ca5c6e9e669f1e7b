from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from app.review.evidence.own_votes import OwnVotes

HASTE = 5.0
"""Seconds within which hardly anybody can read two answers: a vote that soon after the last is hasty."""
_HOUR = 3600.0


class BusiestHour(BaseModel):
    """The sixty minutes with the most votes."""

    model_config = ConfigDict(frozen=True)

    since: datetime
    votes: int


class Burst(BaseModel):
    """Votes that followed each other within 5 seconds."""

    model_config = ConfigDict(frozen=True)

    since: datetime
    votes: int
    seconds: float


class Pace(BaseModel):
    """How fast the votes came, by `voted_at` where it is given, else by the arrival of live votes."""

    model_config = ConfigDict(frozen=True)

    votes: int = Field(description="Votes whose moment is known; those sent together without `voted_at` are not.")
    median_seconds: float | None = Field(description="Between one vote and the next.")
    hasty: float | None = Field(description="Share of votes within 5 seconds of the one before.")
    busiest_hour: BusiestHour | None
    longest_burst: Burst | None = Field(description="Null where no vote came within 5 seconds of the one before.")


def pace(votes: OwnVotes) -> Pace:
    """Measure how fast an annotator's votes came."""
    moments = np.sort(_moments(votes.voted, votes.received))
    if len(moments) == 0:
        return Pace(votes=0, median_seconds=None, hasty=None, busiest_hour=None, longest_burst=None)
    gaps = np.diff(moments)
    return Pace(
        votes=len(moments),
        median_seconds=float(np.median(gaps)) if len(gaps) else None,
        hasty=float(np.mean(gaps <= HASTE)) if len(gaps) else None,
        busiest_hour=_busiest_hour(moments),
        longest_burst=_longest_burst(moments, gaps),
    )


def _moments(voted: NDArray[np.float64], received: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return when votes were cast; what arrived at the very same moment was sent together, and says nothing."""
    arrived = received[np.isnan(voted) & ~np.isnan(received)]
    values, times = np.unique(arrived, return_counts=True)
    return np.concatenate([voted[~np.isnan(voted)], values[times == 1]])


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
