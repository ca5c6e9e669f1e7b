from collections.abc import Callable
from datetime import datetime, timedelta

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection, RowMapping

from app.policy.schemas import Policy
from app.policy.service import stored_policy
from app.snapshots.vote_sets import (
    MOST_COUNTED,
    anyone_has_more_votes_than,
    count_votes,
    new_votes_since,
    seconds_since_first_vote,
    seconds_with_more_votes_than,
)

CountNewVotes = Callable[[Connection, str], int]
"""Counts the votes on record that a set of votes did not see."""


class Freshness(BaseModel):
    """How a published board stands to what is on record now."""

    model_config = ConfigDict(frozen=True)

    published_at: datetime
    age_seconds: float = Field(description="Since it was published, by the database's clock.")
    votes_not_in_board: int = Field(description="Votes recorded since; the next refit reads them.")
    stale: bool = Field(description="Whether votes wait and the board is older than the policy's stale_after_seconds.")
    next_refit_due_at: datetime | None = Field(
        description="When the schedule refits, if nobody asks for it sooner; in the past while it is under way. Null "
        "while no new votes wait."
    )


def judge_freshness(conn: Connection, head: RowMapping, count_new_votes: CountNewVotes = new_votes_since) -> Freshness:
    """Say how fresh a board is.

    Parameters
    ----------
    head : of its snapshot, as `app.leaderboard.queries.find_state` returns it
    """
    policy = stored_policy(head["policy"])
    waiting = count_new_votes(conn, head["vote_set"])
    last, interval = head["last_refit_at"], timedelta(seconds=policy.refit_interval_seconds)
    return Freshness(
        published_at=head["published_at"],
        age_seconds=head["age_seconds"],
        votes_not_in_board=waiting,
        stale=waiting > 0 and head["age_seconds"] > policy.stale_after_seconds,
        next_refit_due_at=last + interval if waiting and last is not None else None,
    )


def first_board_is_late(conn: Connection, policy: Policy) -> bool:
    """Whether votes that make a first board possible have waited for longer than a board may be old.

    Possible it is, as for the schedule, once somebody has more votes than the policy's `min_votes`. Since when is
    looked up among a million votes at most: of more it has been for long.
    """
    longest = seconds_since_first_vote(conn)
    if longest is None or longest <= policy.stale_after_seconds:
        return False  # and the votes need not be read
    if count_votes(conn, at_most=MOST_COUNTED) == MOST_COUNTED:
        return anyone_has_more_votes_than(conn, policy.min_votes)
    possible = seconds_with_more_votes_than(conn, policy.min_votes)
    return possible is not None and possible > policy.stale_after_seconds
