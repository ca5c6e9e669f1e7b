from collections import Counter
from collections.abc import Callable, Mapping, MutableMapping
from functools import partial
from typing import Annotated, Any
from uuid import UUID

import prometheus_client
from anyio import from_thread
from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic_core import to_json

from app.api.dependencies import database_turn, require
from app.api.idempotency import HEADER, REPLAYED, documented_key, read_claim, run_once
from app.api.problems import problem_responses
from app.api.submissions import (
    WITHOUT_KEY,
    OptionalIngest,
    direct_router,
    documented_body,
    refuse_anonymous,
    shown_token,
    verify_battle_token,
)
from app.auth.callers import Caller, ForeignAnnotatorError
from app.errors import ConflictError
from app.guard.bodies import parse_body, takes_body
from app.guard.limits import RateLimits
from app.guard.middleware import when_answered
from app.guard.process_metrics import REGISTRY
from app.guard.refusals import PREFIX, problem_response
from app.state import state_of
from app.votes.batches import Batches
from app.votes.rules import MAX_VOTE_BYTES
from app.votes.schemas import (
    BatchAnswer,
    RankedVote,
    RecordedVoteAnswer,
    SealedVoteBody,
    Status,
    Vote,
    VoteBatch,
    VoteReceipt,
    parse_vote,
)
from app.votes.service import NAMED, VoteQueue


class VoteConflictError(ConflictError):
    """The annotator has voted on this battle before, with another verdict. The problem names the vote on record."""

    code = "vote-conflict"
    title = "The annotator has judged this battle otherwise"

    def __init__(self, detail: str, vote_id: UUID) -> None:
        super().__init__(detail, extensions={"id": str(vote_id)})


_STATUS_ANSWERED: dict[int, Status] = {201: "created", 200: "duplicate", 409: "conflict"}

router = direct_router("/votes", "votes")

VOTE_ROUTES = {f"{PREFIX}/votes": "single", f"{PREFIX}/votes/batch": "batch"}
_ANSWERED = "votes_answered"
_FIRST_REFUSAL = 400
_NOT_VALID = frozenset({400, 422})

_votes = prometheus_client.Counter(
    "stable_arena_votes",
    "Votes by their result. A request that was refused before its votes were read counts as one vote.",
    ("source", "status"),
    registry=REGISTRY,
)
# All of them from the start: a rate needs a first value of 0.
_VOTES = {
    (source, status): _votes.labels(source, status)
    for source in VOTE_ROUTES.values()
    for status in ("created", "duplicate", "conflict", "invalid", "refused")
}


def note_votes(scope: MutableMapping[str, Any], counts: Mapping[str, int]) -> None:
    """Remember how many of the request's votes have each status. A replayed answer has none."""
    scope[_ANSWERED] = counts


def count_votes(source: str) -> Callable[[MutableMapping[str, Any], int], None]:
    """Return what counts the votes of an answer to a request with single votes, or with a batch."""

    def count(scope: MutableMapping[str, Any], status: int) -> None:
        if scope["method"] != "POST":
            return
        counts: Mapping[str, int] | None = scope.get(_ANSWERED)
        if counts is not None:
            for name, number in counts.items():
                _VOTES[source, name].inc(number)
        elif status >= _FIRST_REFUSAL:
            _VOTES[source, "invalid" if status in _NOT_VALID and source == "single" else "refused"].inc()

    return count


@router.post(
    "",
    status_code=201,
    response_model=RecordedVoteAnswer,
    responses={
        200: {"model": RecordedVoteAnswer, "description": "The same vote is on record already."},
        **problem_responses(404, 409, 410),
    },
    openapi_extra={
        **documented_body(Vote, RankedVote, SealedVoteBody),
        "parameters": [documented_key()],
        **WITHOUT_KEY,
    },
)
@takes_body(lambda _: MAX_VOTE_BYTES)
@when_answered(count_votes("single"))
async def post_vote(caller: OptionalIngest, request: Request) -> Response:
    """Record one vote.

    201 means that the vote is stored durably. An annotator judges a battle (`battle_id`) once. The same verdict again,
    sides swapped or not, answers 200 with the id of the vote on record. Another verdict is a conflict; if the policy's
    `on_conflict` says so, it replaces the vote on record (`replaces`). A vote without `battle_id` is always new, so it
    is safe to send again only with an `Idempotency-Key`: the same key and body get the first answer again.

    A ranking of several models (`ranking` in place of `model_a`, `model_b` and `winner`) is one vote: it is retracted
    as one, by its `id`, and another order is another verdict.

    A vote on a sealed battle (`POST /battles`) has the battle's `token` in place of models and annotator, and the
    answer reveals the models, `left` and `right`. With `reveal` false it does not, and the vote can be taken back for
    15 seconds (`POST /battles/{battle_id}/undo`) or until it is sent again with `reveal`. The token counts once, also
    if the vote is retracted later. The same verdict again answers 200.

    Needs scope `ingest`, an ingest token or the token of a battle. Problems: `not-authenticated`, `scope-missing`;
    `foreign-annotator` if the token is bound to another annotator; `malformed-body`, `media-type`, `body-too-large`,
    `invalid`; `vote-conflict`, with the `id` on record, if the annotator has judged the battle otherwise;
    `forged-token`, `battle-expired`, `battle-skipped`, and `not-found` for a battle that is no longer on record;
    `idempotency-key-reused`, `idempotency-in-flight`. After `queue-full`, `shutting-down`, `database-unreachable` or
    `database-busy`, send it again later.
    """
    body = await request.body()
    if caller is None and shown_token(body) is None:
        raise refuse_anonymous(request)
    vote = await parse_body(parse_vote, body)
    queue, render = state_of(request.scope)[VoteQueue], partial(_respond, request)
    if not isinstance(vote, NAMED):
        battle_id = verify_battle_token(request, vote.token, caller)
        if caller is not None and caller.binding and (vote.annotator is None or not caller.may_vote_as(vote.annotator)):
            raise ForeignAnnotatorError("this ingest token may vote for one annotator only: state it as `annotator`")
        return _noted(request, render(await queue.submit((vote, battle_id))))
    assert caller is not None  # noqa: S101  without a key only a token is let in
    if not caller.may_vote_as(vote.annotator):
        raise ForeignAnnotatorError("this token may vote for one annotator only, and this is another")
    if caller.token_id is not None:
        state_of(request.scope)[RateLimits].count_token_votes(request.scope, caller, {vote.annotator: 1})
    if HEADER not in request.headers:
        return _noted(request, render(await queue.submit((vote, caller))))
    return _noted(request, await queue.submit_once((vote, caller), read_claim(request, caller, body), render))


@router.post(
    "/batch",
    response_model=BatchAnswer,
    responses=problem_responses(409),
    openapi_extra={**documented_body(VoteBatch), "parameters": [documented_key()]},
)
@takes_body(lambda settings: settings.server.max_body_bytes)
@when_answered(count_votes("batch"))
async def post_vote_batch(caller: Annotated[Caller, require("ingest", tokens=True)], request: Request) -> Response:
    """Record up to 10,000 votes.

    Each vote has its own result, in order: created, duplicate, conflict or invalid, as for a single vote. An invalid
    vote does not touch the others; the first 100 invalid votes have `errors`. 200 means that every vote whose result is
    created is stored durably. Any other answer means that none is. With an `Idempotency-Key`, the same batch sent again
    gets the first answer again.

    Needs scope `ingest` or an ingest token. If the token is bound to an annotator, the votes of others are invalid.
    Problems: `not-authenticated`, `scope-missing`; `malformed-body`, `media-type`, `body-too-large`; `invalid` if the
    body as a whole is not a batch; `idempotency-key-reused`, `idempotency-in-flight`. After `too-many-batches`,
    `database-unreachable` or `database-busy`, send it again later.
    """
    batches = state_of(request.scope)[Batches]
    with batches.reserve_memory(request.headers.get("content-length")):
        body = await request.body()
        claim = None
        if HEADER in request.headers:
            claim = await run_in_threadpool(read_claim, request, caller, body)
        async with database_turn(request):
            response, counts = await run_in_threadpool(
                batches.record, body, caller,
                once=partial(run_once, claim=claim), count=_token_count(request, caller),
            )  # fmt: skip
    note_votes(request.scope, counts)
    return response


def _token_count(request: Request, caller: Caller) -> Callable[[Counter[str]], None]:
    """Return what counts the votes of a batch towards the limits of its token. It is called in another thread."""
    if caller.token_id is None:
        return lambda _: None
    limits = state_of(request.scope)[RateLimits]
    return lambda votes: from_thread.run_sync(limits.count_token_votes, request.scope, caller, votes)


def _noted(request: Request, response: Response) -> Response:
    replayed = REPLAYED in response.headers
    note_votes(request.scope, {} if replayed else {_STATUS_ANSWERED[response.status_code]: 1})
    return response


def _respond(request: Request, receipt: VoteReceipt) -> Response:
    assert receipt.id is not None  # noqa: S101  only an invalid vote has none, and the queue has refused it
    if receipt.status == "conflict":
        return problem_response(request.scope, VoteConflictError(receipt.detail or "", receipt.id))
    status = 201 if receipt.status == "created" else 200
    return Response(to_json(receipt.shown()), status, media_type="application/json")
