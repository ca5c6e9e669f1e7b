"""What a first leaderboard needs: the policy's least number of annotators and of votes."""

from dataclasses import dataclass
from datetime import UTC, timedelta

from sqlalchemy import Connection, Interval, func, literal, not_, select

from app.database.tables import refits, votes
from app.policy.schemas import Policy
from app.policy.service import current_policy
from app.rating.errors import counted
from app.snapshots.vote_sets import count_votes, is_retracted

_MOST_READ = 100_000  # votes, for a reader who may be anybody


@dataclass(frozen=True)
class FirstLeaderboardNeeds:
    """What a first leaderboard needs, and what there is of it.

    Attributes
    ----------
    annotators : those with more than `min_votes` votes that are not retracted
    votes : the votes of these annotators
    most_votes : the most votes that any annotator has
    """

    policy: Policy
    annotators: int
    votes: int
    most_votes: int

    @property
    def met(self) -> bool:
        """Whether a first leaderboard can be published."""
        return self.annotators >= self.policy.min_board_annotators and self.votes >= self.policy.min_board_votes

    def describe(self) -> str:
        """Return in a sentence what it needs and what there is."""
        policy = self.policy
        return (
            f"a first leaderboard needs {counted(policy.min_board_annotators, 'annotator')} with more than "
            f"{counted(policy.min_votes, 'vote')} each, and {counted(policy.min_board_votes, 'vote')} of theirs; there "
            f"are {counted(self.annotators, 'annotator')} with {counted(self.votes, 'vote')}, and the most votes of "
            f"one annotator are {self.most_votes:,}"
        )


def read_first_leaderboard_needs(conn: Connection, policy: Policy) -> FirstLeaderboardNeeds:
    """Return how far the votes on record are from a first leaderboard.

    Reads every vote: use it before the first snapshot only.
    """
    c = votes.c
    each = (
        select(func.count().label("n"))
        .select_from(votes)
        .where(c.criterion.is_(None), not_(is_retracted(c.id)))
        .group_by(c.annotator_id)
        .subquery()
    )
    enough = each.c.n > policy.min_votes
    statement = select(
        func.count().filter(enough), func.coalesce(func.sum(each.c.n).filter(enough), 0), func.max(each.c.n)
    )
    annotators, n_votes, most = conn.execute(statement).one()
    return FirstLeaderboardNeeds(policy, annotators, int(n_votes), most or 0)


def describe_wait(conn: Connection) -> str:
    """Return what a first leaderboard waits for and when the next refit is due, in numbers that anybody may know.

    With more votes than are read for a stranger it does not say how many annotators have enough.
    """
    policy = current_policy(conn).settings
    n_votes = count_votes(conn, at_most=_MOST_READ + 1)
    if n_votes > _MOST_READ:
        return f"more than {_MOST_READ:,} votes are on record; {_describe_due(conn, policy)}"
    needs = read_first_leaderboard_needs(conn, policy)
    due = _describe_due(conn, policy) if needs.met else "no refit is due before that"
    return f"{counted(n_votes, 'vote')} on record; {needs.describe()}; {due}"


def _describe_due(conn: Connection, policy: Policy) -> str:
    interval = literal(timedelta(seconds=policy.refit_interval_seconds), Interval)
    due = func.max(refits.c.finished_at) + interval
    statement = select(due, due > func.now()).where(refits.c.finished_at <= func.clock_timestamp())
    at, waits = conn.execute(statement).one()
    return f"the next refit is due at {at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" if waits else "a refit is due now"
