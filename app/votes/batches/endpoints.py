from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, Field
from pydantic_core import to_json
from sqlalchemy import Connection

from app.auth.service import Caller
from app.errors import FieldError, UnavailableError
from app.http.bodies import documented_body, json_content
from app.http.dependencies import authorise, bearer_secret, database_turn, require, services_of
from app.http.idempotency.headers import claim_of, documented_key, keep_hours, respond
from app.http.idempotency.service import Answer, Claim, answer_once
from app.http.problems import ProblemFieldError, problem_responses
from app.http.process_metrics import note_votes
from app.naming.known_names import Known
from app.services import Services
from app.votes.schemas import VoteBatch, parse_batch
from app.votes.service import look_up_names, record_submissions, refuse_invalid
from app.votes.vote import NewVote, Status, VoteReceipt, invalid_receipt

router = APIRouter(prefix="/votes", tags=["votes"])

_LEAST_SIZE = 16 * 1024  # what even the smallest takes: a task, a thread


class TooManyBatchesError(UnavailableError):
    """As many bytes of batches are being received and recorded as the service means to hold in memory."""

    code = "too-many-batches"
    title = "Too many batches at once"


class VoteResult(BaseModel):
    """What became of one vote of a batch."""

    index: int = Field(description="Place in the batch, from 0.")
    status: Status
    id: UUID | None = Field(None, description="The vote on record: also the earlier one that this one contradicts.")
    replaces: UUID | None = Field(None, description="The annotator's earlier vote that this one takes the place of.")
    detail: str | None = Field(None, description="Why it was not recorded.")
    errors: list[ProblemFieldError] | None = Field(None, description="The places in an invalid vote.")


class VoteCounts(BaseModel):
    """How many votes of a batch met each fate."""

    created: int = 0
    duplicate: int = 0
    conflict: int = 0
    invalid: int = 0


class BatchAnswer(BaseModel):
    """One result for each vote, in order."""

    results: list[VoteResult]
    counts: VoteCounts


@router.post(
    "/batch",
    response_model=BatchAnswer,
    responses=problem_responses(400, 401, 403, 409, 413, 415, 422, 503),
    openapi_extra={**documented_body(VoteBatch), "parameters": [documented_key()]},
)
async def post_vote_batch(caller: Annotated[Caller, require("ingest", tokens=True)], request: Request) -> Response:
    """Record up to 10,000 votes.

    Each vote has its own result, in order: created, duplicate, conflict or invalid, as for a single vote; a bad one
    does not touch its neighbours. 200 means that every vote whose result is created is stored for good; any other
    answer that none is. With an `Idempotency-Key` the same batch sent again gets the first answer again.

    Needs scope `ingest` or an ingest token; with one that is bound to an annotator, others' votes are invalid.
    Problems: `not-authenticated`, `scope-missing`; `malformed-body`, `media-type`, `body-too-large`; `invalid` when
    the body as a whole is not a batch; `idempotency-key-reused`, `idempotency-in-flight`; `too-many-batches`,
    `database-unreachable`, `database-busy`: send it again later.
    """
    with _batch_turn(request):
        body = await request.body()
        claim = claim_of(request, caller, body)
        async with database_turn(request):
            services = services_of(request)
            tally: Counter[str] = Counter()
            answer = await run_in_threadpool(
                _take_batch, services, body, caller, claim, tally, keep_hours=keep_hours(request)
            )
    note_votes(request.scope, tally)
    return respond(answer)


async def post_vote_batch_directly(request: Request) -> Response:
    """Do what the framework does on the way to `post_vote_batch`, then that."""
    await json_content(request)
    return await post_vote_batch(await authorise(request, "ingest", bearer_secret(request), tokens=True), request)


@contextmanager
def _batch_turn(request: Request) -> Iterator[None]:
    """Hold the memory that a batch may take, from before its body is received until it is answered."""
    state = services_of(request)
    size = _said_size(request)
    # A batch is never too large for an idle service: then the body's own limit holds.
    if state.batch_bytes and state.batch_bytes + size > state.settings.ingest.batch_bytes:
        raise TooManyBatchesError(f"batches of {state.batch_bytes:,} bytes are under way already")
    state.batch_bytes += size
    try:
        yield
    finally:
        state.batch_bytes -= size


def _said_size(request: Request) -> int:
    """Return the bytes that the body may have: as many as it says, or as many as any may."""
    said = request.headers.get("content-length")
    limit = services_of(request).settings.server.max_body_bytes
    return max(int(said), _LEAST_SIZE) if said is not None else limit


def _take_batch(
    services: Services,
    body: bytes,
    caller: Caller,
    claim: Claim | None,
    tally: Counter[str],
    *,
    keep_hours: int,
) -> Answer:
    parsed = [_if_allowed(each, caller) for each in parse_batch(body)] if caller.binding else parse_batch(body)
    receipts = {i: invalid_receipt(each) for i, each in enumerate(parsed) if isinstance(each, tuple)}
    votes = {i: each for i, each in enumerate(parsed) if isinstance(each, NewVote)}
    refused, valid = refuse_invalid(list(votes.values()))
    places = list(votes)
    receipts.update((places[i], receipt) for i, receipt in refused.items())
    whole = {places[i]: votes[places[i]] for i in valid}
    known = look_up_names(services.known_names, whole.values())
    with services.database.begin() as conn:
        return answer_once(
            conn, claim, lambda: _record(conn, whole, receipts, caller, known, tally), keep_hours=keep_hours
        )


def _if_allowed(parsed: NewVote | tuple[FieldError, ...], caller: Caller) -> NewVote | tuple[FieldError, ...]:
    if isinstance(parsed, tuple) or caller.may_vote_as(parsed.annotator):
        return parsed
    return (FieldError("/annotator", "is not the annotator whom the token may vote for"),)


def _record(
    conn: Connection,
    votes: dict[int, NewVote],
    receipts: dict[int, VoteReceipt],
    caller: Caller,
    known: Known,
    tally: Counter[str],
) -> Answer:
    recorded = record_submissions(conn, [(vote, caller.key_id) for vote in votes.values()], known)
    receipts = {**receipts, **dict(zip(votes, recorded, strict=True))}
    results = [_result(i, receipt) for i, receipt in sorted(receipts.items())]
    tally.update(receipt.status for receipt in receipts.values())
    return Answer(200, to_json({"results": results, "counts": VoteCounts.model_validate(tally)}))


def _result(index: int, receipt: VoteReceipt) -> dict[str, object]:
    """Return the receipt as `VoteResult` describes it; to make ten thousand of those would take as long as the rest."""
    result: dict[str, object] = {"index": index, "status": receipt.status}
    if receipt.id is not None:
        result["id"] = receipt.id
    if receipt.replaces is not None:
        result["replaces"] = receipt.replaces
    if receipt.detail is not None:
        result["detail"] = receipt.detail
    if receipt.errors:
        result["errors"] = [{"pointer": error.pointer, "detail": error.detail} for error in receipt.errors]
    return result
