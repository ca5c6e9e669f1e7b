from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Response
from pydantic import TypeAdapter

from app.auth.callers import Caller
from app.http.dependencies import ReadView, Transaction, require, require_any
from app.http.pagination import Cursor, Page, PageSize, paginate, read_cursor
from app.http.problems import problem_responses
from app.votes.retractions import service as retractions
from app.votes.retractions.schemas import Retraction, RetractionRequest, VoteOnRecord, VoteRetraction

router = APIRouter(tags=["votes"])

_Position = TypeAdapter(tuple[UUID])


@router.get("/votes/{vote_id}", dependencies=[require("review")], responses=problem_responses(401, 403, 404, 422, 503))
def get_vote(vote_id: UUID, conn: ReadView) -> VoteOnRecord:
    """Show a vote on record, and what retracted it, if it is retracted.

    Needs scope `review`. Problems: `not-authenticated`, `scope-missing`, `not-found`.
    """
    return retractions.find_vote(conn, vote_id)


@router.post(
    "/votes/{vote_id}/retract",
    status_code=201,
    responses={
        200: {"model": Retraction, "description": "The vote was retracted before, by this retraction."},
        **problem_responses(401, 403, 404, 409, 422, 503),
    },
)
def retract_vote(
    vote_id: UUID,
    body: VoteRetraction,
    caller: Annotated[Caller, require_any("ingest", "review")],
    conn: Transaction,
    response: Response,
) -> Retraction:
    """Retract one vote.

    It stays on record and does not count, from the next refit on. A new vote on its battle does not bring it back.
    Retracting it again changes nothing: 200 with the first retraction. Needs scope `review`; a key with scope `ingest`
    may retract the votes that it sent. Problems: `not-authenticated`; `scope-missing`, also for a vote that another key
    sent; `not-found`; `conflict` for a vote that its annotator has replaced; `invalid` for a blank reason.
    """
    retraction, new = retractions.retract_vote(conn, vote_id, caller=caller, reason=body.reason)
    response.status_code = 201 if new else 200
    return retraction


@router.post("/retractions", status_code=201, responses=problem_responses(401, 403, 404, 422, 503))
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


@router.get("/retractions", dependencies=[require("review")], responses=problem_responses(401, 403, 422, 503))
def list_retractions(conn: ReadView, limit: PageSize = 50, cursor: Cursor = None) -> Page[Retraction]:
    """List retractions, the newest first.

    Needs scope `review`. Problems: `not-authenticated`, `scope-missing`; `invalid` for an unknown cursor.
    """
    position = read_cursor(cursor, _Position)
    items = retractions.list_retractions(conn, limit=limit + 1, before=position and position[0])
    return paginate(items, limit, lambda last: (last.id,))
