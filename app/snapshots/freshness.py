from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, RowMapping

from app.policy.schemas import Policy
from app.policy.service import stored_policy
from app.snapshots.first_leaderboard import read_first_leaderboard_needs
from app.snapshots.schemas import Freshness
from app.snapshots.vote_sets import (
    MOST_COUNTED,
    count_votes,
    new_votes_since,
    seconds_since_first_vote,
    seconds_with_more_votes_than,
)

CountNewVotes = Callable[[Connection, str], int]
"""Counts the votes on record that are not in a vote set."""


def judge_freshness(conn: Connection, head: RowMapping, count_new_votes: CountNewVotes = new_votes_since) -> Freshness:
    """Return how fresh a leaderboard is.

    Parameters
    ----------
    head : of its snapshot, as `app.leaderboard.queries.find_state` returns it
    """
    waiting = count_new_votes(conn, head["vote_set"])
    return freshness_of(head["published_at"], head["age_seconds"], waiting, refit_rhythm(head))


@dataclass(frozen=True)
class RefitRhythm:
    """When the last refit ended, and what the policy says of refits."""

    last_refit_at: datetime | None
    interval: timedelta
    stale_after_seconds: float


def refit_rhythm(head: RowMapping) -> RefitRhythm:
    """Return the rhythm of refits; `head` as in `judge_freshness`."""
    policy = stored_policy(head["policy"])
    interval = timedelta(seconds=policy.refit_interval_seconds)
    return RefitRhythm(head["last_refit_at"], interval, policy.stale_after_seconds)


def freshness_of(published_at: datetime, age_seconds: float, waiting: int, rhythm: RefitRhythm) -> Freshness:
    """Return how fresh a leaderboard of this age is; `waiting` votes are not in it."""
    last = rhythm.last_refit_at
    return Freshness(
        published_at=published_at,
        age_seconds=age_seconds,
        votes_not_in_board=waiting,
        stale=waiting > 0 and age_seconds > rhythm.stale_after_seconds,
        next_refit_due_at=last + rhythm.interval if waiting and last is not None else None,
    )


def first_leaderboard_is_late(conn: Connection, policy: Policy) -> bool:
    """Whether a first leaderboard has been possible for longer than a leaderboard may be old.

    It is possible, as for the schedule, once there are the annotators and the votes that the policy asks for.
    """
    longest = seconds_since_first_vote(conn)
    if longest is None or longest <= policy.stale_after_seconds:
        return False
    if not read_first_leaderboard_needs(conn, policy).met:
        return False
    # With a million votes or more their times are not read: they came in over a long time.
    if count_votes(conn, at_most=MOST_COUNTED) == MOST_COUNTED:
        return True
    possible = seconds_with_more_votes_than(conn, policy.min_votes, annotators=policy.min_board_annotators)
    return possible is not None and possible > policy.stale_after_seconds
