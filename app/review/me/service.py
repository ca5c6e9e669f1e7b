"""What annotators are shown about themselves. Reviewers see abilities and evidence; annotators do not."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, RowMapping, select, true

from app.annotators import queries as annotators
from app.annotators.schemas import FoundAnnotator, VotesSummary
from app.auth.callers import Caller, ForeignAnnotatorError
from app.database.tables import appeals, decisions
from app.naming.service import naming_of
from app.policy.service import current_policy
from app.review.me.schemas import OwnAppeal, OwnStanding, OwnVote
from app.review.queries import list_votes
from app.votes.queries import read_undoable
from app.votes.rules import WINNERS

_APPEALS = 100
_COUNTS = ("votes", "model_a", "model_b", "tie", "tie_bothbad", "models", "retracted")
_NO_VOTES = VotesSummary(**dict.fromkeys(_COUNTS, 0), first_received_at=None, last_received_at=None)


def find_self(conn: Connection, caller: Caller, annotator: str) -> FoundAnnotator | None:
    """Return the annotator that the caller's token is bound to; None before the annotator's first vote.

    Raises ForeignAnnotatorError: the token is bound to another annotator.
    """
    if not caller.may_vote_as(annotator):
        raise ForeignAnnotatorError("this token is bound to another annotator")
    # By the raw key alone: it may look like the id, or like the stored pseudonym, of somebody else.
    row = annotators.find_annotator(conn, public_id=None, keys=naming_of(conn).stored_keys(annotator))
    return None if row is None else FoundAnnotator.model_validate(dict(row))


def describe_self(conn: Connection, found: FoundAnnotator | None) -> OwnStanding:
    """Return an annotator's standing, a summary of the votes, and the appeals with their outcome."""
    enough = current_policy(conn).settings.min_votes + 1
    if found is None:
        return OwnStanding(standing="pending", votes_needed=enough, votes_summary=_NO_VOTES, appeals=[])
    hidden = read_undoable(conn, found.annotator_id)  # how many models they show would say which these are
    votes = VotesSummary.model_validate(dict(annotators.summarise_votes(conn, found.annotator_id, without=hidden)))
    return OwnStanding(
        standing=found.standing,
        votes_needed=max(0, enough - (votes.votes - votes.retracted)),
        votes_summary=votes,
        appeals=[
            OwnAppeal.model_validate(dict(row)) for row in list_own_appeals(conn, found.annotator_id, limit=_APPEALS)
        ],
    )


def list_own_votes(
    conn: Connection, found: FoundAnnotator | None, *, limit: int, before: UUID | None = None
) -> list[OwnVote]:
    """Return an annotator's votes, the one recorded last first, those recorded before the vote `before`.

    One that can still be taken back is left out: it has not revealed its models.
    """
    if found is None:
        return []
    hidden = read_undoable(conn, found.annotator_id)
    rows = list_votes(conn, found.annotator_id, limit=limit, before=before, without=hidden)
    return [OwnVote.model_validate({**row, "winner": WINNERS[row["outcome"]]}) for row in rows]


def list_own_appeals(conn: Connection, annotator_id: int, *, limit: int) -> Sequence[RowMapping]:
    """Return the annotator's appeals, the newest first, each with the first decision after it."""
    c = decisions.c
    answer = (
        select(c.action.label("outcome"), c.decided_at)
        .where(c.annotator_id == appeals.c.annotator_id, c.decided_at > appeals.c.submitted_at)
        .order_by(c.decided_at)
        .limit(1)
        .lateral()
    )
    statement = (
        select(
            appeals.c.id,
            appeals.c.note,
            appeals.c.submitted_at,
            answer.c.outcome,
            answer.c.decided_at,
            answer.c.outcome.is_(None).label("open"),
        )
        .select_from(appeals.outerjoin(answer, true()))
        .where(appeals.c.annotator_id == annotator_id)
        .order_by(appeals.c.submitted_at.desc(), appeals.c.id.desc())
        .limit(limit)
    )
    return conn.execute(statement).mappings().all()
