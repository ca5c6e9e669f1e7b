"""Whether an annotator's ability changed, from the votes in the order in which they were cast."""

import math
from datetime import UTC, datetime

import numpy as np

from app.rating.detection.drift import ABILITIES, find_drift
from app.review.evidence.annotator_votes import AnnotatorVotes
from app.review.evidence.expectations import Floats, expect
from app.review.evidence.schemas import Drift

CLEAR = 2.0
"""log10 of the likelihood ratio from which the page names a change: a hundred to one."""


def measure_drift(votes: AnnotatorVotes) -> Drift | None:
    """Weigh a change of ability against none; None for fewer than two decided votes between models with a score.

    The order is that of `voted`, else `received`, or that of the record where the time of any vote is unknown.
    """
    counted = np.flatnonzero(votes.scored)[votes.decided][::-1]  # the oldest on record first
    times = np.where(np.isnan(votes.voted), votes.received, votes.voted)[counted]
    known = not np.isnan(times).any()
    if known:
        order = np.argsort(times, kind="stable")
        counted, times = counted[order], times[order]
    found = find_drift(_log_likelihood(votes.gap[counted], votes.outcome[counted] == 0, votes.tie_weight))
    if found is None:
        return None
    (before, before_sd), (after, after_sd) = found.before, found.after
    return Drift(
        votes=len(counted),
        log10_ratio=found.log_ratio / math.log(10.0),
        votes_before=found.votes_before,
        changed_at=datetime.fromtimestamp(float(times[found.votes_before]), UTC) if known else None,
        before=before,
        before_sd=before_sd,
        after=after,
        after_sd=after_sd,
    )


def _log_likelihood(gap: Floats, left_won: np.ndarray[tuple[int], np.dtype[np.bool_]], tie_weight: float) -> Floats:
    """Return log P(verdict | ability, no tie), shape (n_votes, n_abilities)."""
    table = np.empty((len(gap), len(ABILITIES)))
    for column, ability in enumerate(ABILITIES.tolist()):
        expected = expect(gap, ability, tie_weight)
        won = np.where(left_won, expected.left, expected.right)
        table[:, column] = np.log(won / (expected.left + expected.right))
    return table
