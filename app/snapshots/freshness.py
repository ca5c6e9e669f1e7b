"""How old a leaderboard is, and when the next refit is due."""

from collections.abc import Callable
from datetime import datetime, timedelta

from sqlalchemy import Connection

from app.policy.schemas import Policy
from app.snapshots.first_leaderboard import read_first_leaderboard_needs
from app.snapshots.schemas import Freshness
from app.snapshots.vote_sets import (
    MOST_COUNTED,
    anything_new_since,
    count_votes,
    seconds_since_first_vote,
    seconds_with_more_votes_than,
)

CountNewVotes = Callable[[Connection, str], int]
"""Counts the votes on record that are not in a vote set."""
CLOCK_TOLERANCE_SECONDS = 30.0
"""How far ahead something may be dated without a word: clocks of a primary and its replica differ by less."""


def is_from_future(age_seconds: float) -> bool:
    """Whether something of this age, by the database's clock, was dated while that clock was ahead."""
    return age_seconds < -CLOCK_TOLERANCE_SECONDS


def freshness_of(
    published_at: datetime, age_seconds: float, waiting: int, due_at: datetime | None, stale_after_seconds: float
) -> Freshness:
    """Return how fresh a leaderboard of this age is.

    `waiting`: votes that are not in it.
    `due_at`: when the next refit by schedule is due.
    `stale_after_seconds`: how old it may be while votes wait.
    """
    too_old = waiting > 0 and age_seconds > stale_after_seconds
    return Freshness(
        published_at=published_at,
        age_seconds=max(age_seconds, 0.0),
        votes_not_in_board=waiting,
        stale=too_old or is_from_future(age_seconds),
        next_refit_due_at=due_at,
    )


def next_refit_due_at(
    conn: Connection, policy: Policy, vote_set: str, *, last_ended_at: datetime | None, now: datetime, waiting: int = 0
) -> datetime | None:
    """Return when the next refit by schedule is due, None where there is nothing that `vote_set` did not see.

    The time may have passed. New is all that refits read: votes, retractions, merges, decisions and policies.

    `last_ended_at`: when the last refit ended, however it ended.
    `waiting`: votes that `vote_set` did not see, where they are counted already.
    """
    if not waiting and not anything_new_since(conn, vote_set):
        return None
    return now if last_ended_at is None else last_ended_at + timedelta(seconds=policy.refit_interval_seconds)


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
