from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Response

from app.api.dependencies import ReadView, Transaction, require
from app.api.pagination import Cursor, Id, Page, PageSize, paginate, read_single
from app.api.problems import problem_responses
from app.auth.callers import Caller
from app.votes.retractions import service as retractions
from app.votes.retractions.schemas import (
    Retraction,
    RetractionRequest,
    RetractionWithdrawal,
    VoteOnRecord,
    VoteRetraction,
)

router = APIRouter(tags=["votes"])


@router.get("/votes/{vote_id}", dependencies=[require("review:read")], responses=problem_responses(404))
def get_vote(vote_id: UUID, conn: ReadView) -> VoteOnRecord:
    """Show a vote on record, and what retracted it, if it is retracted.

    Needs scope `review:read`. Problems: `not-authenticated`, `scope-missing`, `not-found`.
    """
    return retractions.find_vote(conn, vote_id)


@router.post(
    "/votes/{vote_id}/retract",
    status_code=201,
    responses={
        200: {"model": Retraction, "description": "The vote was retracted before, by this retraction."},
        **problem_responses(404, 409),
    },
)
def retract_vote(
    vote_id: UUID,
    body: VoteRetraction,
    caller: Annotated[Caller, require("ingest", "review")],
    conn: Transaction,
    response: Response,
) -> Retraction:
    """Retract one vote.

    It stays on record and does not count, from the next refit on. Its battle is free: the annotator may vote on it
    again, on a sealed one until the battle's time is over. Retracting it again changes nothing: 200 with the first
    retraction. Needs scope `review`; a key with scope `ingest` may retract the votes that it sent. Problems:
    `not-authenticated`; `scope-missing`, also for a vote that another key sent; `not-found`; `conflict` for a vote that
    its annotator has replaced; `invalid` for a blank reason.
    """
    retraction, new = retractions.retract_vote(conn, vote_id, caller=caller, reason=body.reason)
    response.status_code = 201 if new else 200
    return retraction


@router.post("/retractions", status_code=201, responses=problem_responses(404))
def post_retraction(
    body: RetractionRequest, caller: Annotated[Caller, require("review")], conn: Transaction
) -> Retraction:
    """Retract one vote, or the votes of a battle, a model or an annotator.

    The votes that are on record now stay there and do not count, from the next refit on. Votes that come later count.
    `votes` is the number that this request retracted: 0 if it is sent again. Needs scope `review`. Problems:
    `not-authenticated`, `scope-missing`; `not-found` for a vote, battle, model or annotator that is not on record;
    `invalid` for an unknown target or a blank reason.
    """
    return retractions.retract_votes(conn, body.target, body.id, reason=body.reason, retracted_by=caller.name)


@router.post("/retractions/{retraction_id}/withdraw", responses=problem_responses(404, 409))
def withdraw_retraction(
    retraction_id: UUID,
    body: RetractionWithdrawal,
    caller: Annotated[Caller, require("review")],
    conn: Transaction,
) -> Retraction:
    """Take back a retraction.

    Its votes count again, from the next refit on, except those that another retraction covers or a later verdict
    replaced. Both acts stay on record; snapshots from between are reproduced without the votes. Withdrawing it again
    changes nothing. Needs scope `review`. Problems: `not-authenticated`, `scope-missing`, `not-found`; `battle-taken`,
    with the `id` of the vote, if the annotator has voted anew on a battle; `invalid` for a blank reason.
    """
    return retractions.withdraw_retraction(conn, retraction_id, reason=body.reason, withdrawn_by=caller.name)


@router.get("/retractions", dependencies=[require("review:read")])
def list_retractions(conn: ReadView, limit: PageSize = 50, cursor: Cursor = None) -> Page[Retraction]:
    """List retractions, the newest first.

    Needs scope `review:read`. Problems: `not-authenticated`, `scope-missing`; `invalid` for an unknown cursor.
    """
    items = retractions.list_retractions(conn, limit=limit + 1, before=read_single(cursor, Id))
    return paginate(items, limit, lambda last: (last.id,))
