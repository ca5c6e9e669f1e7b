from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from app.auth.callers import Caller
from app.http.dependencies import ReadView, Transaction, require, require_any
from app.http.pagination import Cursor, Page, PageSize, paginate, read_cursor
from app.http.problems import problem_responses
from app.http.texts import Reason
from app.naming.names import MAX_NAME_LENGTH
from app.votes.retractions import service as retractions
from app.votes.retractions.queries import Target
from app.votes.retractions.service import Retraction, VoteOnRecord

router = APIRouter(tags=["votes"])

_Position = TypeAdapter(tuple[UUID])


class VoteRetraction(BaseModel):
    """Why a vote is taken back."""

    model_config = ConfigDict(extra="forbid")

    reason: Reason


class RetractionRequest(BaseModel):
    """Whose votes to void, and why."""

    model_config = ConfigDict(extra="forbid")

    target: Target
    id: str = Field(
        min_length=1,
        max_length=MAX_NAME_LENGTH,
        description="Of a vote or a battle its id, of a model its name, of an annotator the id or the key.",
    )
    reason: Reason


@router.get("/votes/{vote_id}", dependencies=[require("review")], responses=problem_responses(401, 403, 404, 422, 503))
def get_vote(vote_id: UUID, conn: ReadView) -> VoteOnRecord:
    """Show a vote on record, with what voided it if anything did.

    Needs scope `review`. Problems: `not-authenticated`, `scope-missing`, `not-found`.
    """
    return retractions.find_vote(conn, vote_id)


@router.post(
    "/votes/{vote_id}/retract",
    status_code=201,
    responses={
        200: {"model": Retraction, "description": "The vote was void already; this is what voided it."},
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
    """Void one vote.

    It stays on record and counts no more, from the next refit on; voting again in its battle does not bring it back.
    Needs scope `review`; a key with scope `ingest` may void the votes that came with it. Doing it twice changes
    nothing: 200 with the first retraction. Problems: `not-authenticated`; `scope-missing`, also for a vote that came
    with another key; `not-found`; `conflict` for a vote that its annotator has replaced; `invalid` for a blank reason.
    """
    retraction, new = retractions.retract_vote(conn, vote_id, caller=caller, reason=body.reason)
    response.status_code = 201 if new else 200
    return retraction


@router.post("/retractions", status_code=201, responses=problem_responses(401, 403, 404, 422, 503))
def post_retraction(
    body: RetractionRequest, caller: Annotated[Caller, require("review")], conn: Transaction
) -> Retraction:
    """Void the votes of a battle, a model or an annotator, or one vote.

    Those on record now stay there and count no more, from the next refit on; votes that come later count. `votes` says
    how many this one voided: asked for twice, the second finds none left. Needs scope `review`. Problems:
    `not-authenticated`, `scope-missing`; `not-found` for a vote, battle, model or annotator that is not on record;
    `invalid` for an unknown target or a blank reason.
    """
    return retractions.retract_votes(conn, body.target, body.id, reason=body.reason, retracted_by=caller.name)


@router.get("/retractions", dependencies=[require("review")], responses=problem_responses(401, 403, 422, 503))
def list_retractions(conn: ReadView, limit: PageSize = 50, cursor: Cursor = None) -> Page[Retraction]:
    """List what was voided, the newest first.

    Needs scope `review`. Problems: `not-authenticated`, `scope-missing`; `invalid` for an unknown cursor.
    """
    position = read_cursor(cursor, _Position)
    items = retractions.list_retractions(conn, limit=limit + 1, before=position and position[0])
    return paginate(items, limit, lambda last: (last.id,))
