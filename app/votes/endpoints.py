from functools import partial
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field
from pydantic_core import to_json

from app.auth.service import Caller
from app.auth.tokens.service import ForeignAnnotatorError
from app.http.bodies import documented_body, json_content
from app.http.dependencies import authorise, bearer_secret, require, services_of
from app.http.idempotency.headers import claim_of, documented_key, json_answer, respond
from app.http.idempotency.service import Answer
from app.http.problems import invalid_input, problem_response, problem_responses
from app.http.process_metrics import note_votes
from app.votes.queue import Keyed
from app.votes.schemas import Vote, parse_vote
from app.votes.vote import Status, VoteConflictError, VoteReceipt

router = APIRouter(prefix="/votes", tags=["votes"])

_STATUS_ANSWERED: dict[int, Status] = {201: "created", 200: "duplicate", 409: "conflict"}


class RecordedVoteAnswer(BaseModel):
    """A vote that is on record."""

    id: UUID = Field(description="The vote on record; for a duplicate, that of the first.")
    status: Status = Field(description="created or duplicate.")
    detail: str | None = Field(None, description="What else there is to say: that the vote on record is retracted.")
    replaces: UUID | None = Field(None, description="The annotator's earlier vote that this one takes the place of.")


@router.post(
    "",
    status_code=201,
    response_model=RecordedVoteAnswer,
    responses={
        200: {"model": RecordedVoteAnswer, "description": "The same vote is on record already."},
        **problem_responses(400, 401, 403, 409, 413, 415, 422, 503),
    },
    openapi_extra={**documented_body(Vote), "parameters": [documented_key()]},
)
async def post_vote(caller: Annotated[Caller, require("ingest", tokens=True)], request: Request) -> Response:
    """Record one vote.

    201 means that it is stored for good. An annotator judges a battle (`battle_id`) once: the same verdict again,
    sides swapped or not, answers 200 with the id of the vote on record; another verdict is a conflict, or `replaces`
    the vote on record where the policy's `on_conflict` says so. A vote without `battle_id` is always new, so it is
    safe to send again only with an `Idempotency-Key`: the same key and body get the first answer again.

    Needs scope `ingest` or an ingest token. Problems: `not-authenticated`, `scope-missing`, `foreign-annotator` where
    the token is bound to another annotator; `malformed-body`, `media-type`, `body-too-large`, `invalid`;
    `vote-conflict`, with the `id` on record, when the annotator has judged the battle otherwise;
    `idempotency-key-reused`, `idempotency-in-flight`; `queue-full`, `shutting-down`, `database-unreachable`,
    `database-busy`: send it again later.
    """
    body = await request.body()
    vote = parse_vote(body)
    if not caller.may_vote_as(vote.annotator):
        raise ForeignAnnotatorError("this token may vote for one annotator only, and this is another")
    claim = claim_of(request, caller, body)
    queue = services_of(request).vote_queue
    render = partial(_answer, request)
    if claim is None:
        receipt = await queue.submit(vote, caller.key_id)
        note_votes(request.scope, {receipt.status: 1})
        return respond(render(receipt))
    answer = await queue.submit_once(vote, caller.key_id, Keyed(claim, render))
    note_votes(request.scope, {} if answer.replayed else {_STATUS_ANSWERED[answer.status]: 1})
    return respond(answer)


async def post_vote_directly(request: Request) -> Response:
    """Do what the framework does on the way to `post_vote`, then that."""
    await json_content(request)
    return await post_vote(await authorise(request, "ingest", bearer_secret(request), tokens=True), request)


def _answer(request: Request, receipt: VoteReceipt) -> Answer:
    if receipt.id is None:
        raise invalid_input(receipt.errors)
    if receipt.status == "conflict":
        problem = problem_response(request.scope, VoteConflictError(receipt.detail or "", receipt.id))
        return Answer(problem.status_code, bytes(problem.body))
    if receipt.status == "created" and receipt.replaces is None:
        # What nearly every vote is answered, as `RecordedVoteAnswer` says it: to make one takes six times as long.
        return Answer(201, to_json({"id": receipt.id, "status": "created"}))
    content = RecordedVoteAnswer(id=receipt.id, status=receipt.status, detail=receipt.detail, replaces=receipt.replaces)
    return json_answer(content, 201 if receipt.status == "created" else 200)
