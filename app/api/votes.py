from collections import Counter
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Response
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema

from app.api.bodies import documented_body, json_body, parse_body, raw_body
from app.api.dependencies import Queue, Transaction, require
from app.api.problems import ProblemFault, invalid_input, problem_responses, validation_faults
from app.arena.keys import Caller
from app.arena.names import MAX_NAME_LENGTH
from app.arena.votes import (
    MAX_METADATA_LENGTH,
    MAX_TAGS,
    NewVote,
    Status,
    VoteConflictError,
    VoteReceipt,
    Winner,
    invalid_receipt,
    record_votes,
)
from app.errors import Fault

router = APIRouter(prefix="/votes", tags=["votes"])

MAX_BATCH = 10_000

Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH)]


class Vote(BaseModel):
    """One annotator's verdict on one pair of models."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "model_a": "mistral-large",
                    "model_b": "qwen-72b",
                    "winner": "model_a",
                    "annotator": "worker-58",
                    "battle_id": "battle-17",
                }
            ]
        },
    )

    model_a: Name = Field(description="Name of one model.")
    model_b: Name = Field(description="Name of the other model.")
    winner: Winner = Field(description="Whose answer was better; tie (bothbad) where neither was any good.")
    annotator: Name = Field(description="Opaque key of who voted; the same person or judge has the same key always.")
    battle_id: Name | None = Field(None, description="The pairing that was judged; an annotator judges it once.")
    voted_at: AwareDatetime | None = Field(None, description="When the vote was cast, with its time zone.")
    tags: list[Name] = Field([], max_length=MAX_TAGS, description="Words to group votes by.")
    metadata: dict[str, Any] = Field(
        {}, description=f"Anything else worth keeping, at most {MAX_METADATA_LENGTH} characters as JSON."
    )

    def to_new_vote(self) -> NewVote:
        """Return the vote as the arena takes it."""
        return NewVote(
            model_a=self.model_a,
            model_b=self.model_b,
            winner=self.winner,
            annotator=self.annotator,
            battle_id=self.battle_id,
            voted_at=self.voted_at,
            tags=tuple(self.tags),
            metadata=self.metadata,
        )


class VoteBatch(BaseModel):
    """Many votes; each is judged by itself."""

    model_config = ConfigDict(extra="forbid")

    # Items are checked one by one: with their type declared here, one bad vote would fail the whole body.
    votes: Annotated[
        list[Any],
        Field(min_length=1, max_length=MAX_BATCH),
        WithJsonSchema(
            {"type": "array", "minItems": 1, "maxItems": MAX_BATCH, "items": {"$ref": "#/components/schemas/Vote"}}
        ),
    ]


class RecordedVoteAnswer(BaseModel):
    """A vote that is on record."""

    id: UUID = Field(description="The vote on record; for a duplicate, that of the first.")
    status: Status = Field(description="created or duplicate.")


class VoteResult(BaseModel):
    """What became of one vote of a batch."""

    index: int = Field(description="Place in the batch, from 0.")
    status: Status
    id: UUID | None = Field(None, description="The vote on record: also the earlier one that this one contradicts.")
    detail: str | None = Field(None, description="Why it was not recorded.")
    errors: list[ProblemFault] | None = Field(None, description="The places in an invalid vote.")


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


_vote_body = json_body(Vote)


@router.post(
    "",
    status_code=201,
    responses={
        200: {"model": RecordedVoteAnswer, "description": "The same vote is on record already."},
        **problem_responses(400, 401, 403, 409, 413, 415, 422, 503),
    },
    openapi_extra=documented_body(Vote),
)
async def post_vote(
    caller: Annotated[Caller, require("ingest")],
    vote: Annotated[Vote, Depends(_vote_body)],
    queue: Queue,
    response: Response,
) -> RecordedVoteAnswer:
    """Record one vote.

    201 means that it is stored for good. An annotator judges a battle (`battle_id`) once: the same verdict again,
    sides swapped or not, answers 200 with the id of the vote on record. A vote without `battle_id` is always new,
    so only votes with one are safe to send again after a lost answer.

    Needs scope `ingest`. Problems: `not-authenticated`, `scope-missing`; `malformed-body`, `media-type`,
    `body-too-large`, `invalid`; `vote-conflict`, with the `id` on record, when the annotator has judged the battle
    otherwise; `queue-full`, `shutting-down`, `database-unreachable`, `database-busy`: send it again later.
    """
    receipt = await queue.submit(vote.to_new_vote(), caller.key_id)
    if receipt.status == "invalid":
        raise invalid_input(receipt.faults)
    assert receipt.id is not None  # noqa: S101  only an invalid vote has no id
    if receipt.status == "conflict":
        raise VoteConflictError(receipt.detail or "", receipt.id)
    if receipt.status == "duplicate":
        response.status_code = 200
    return RecordedVoteAnswer(id=receipt.id, status=receipt.status)


@router.post(
    "/batch",
    response_model=BatchAnswer,
    responses=problem_responses(400, 401, 403, 413, 415, 422, 503),
    openapi_extra=documented_body(VoteBatch),
)
def post_vote_batch(
    caller: Annotated[Caller, require("ingest")], body: Annotated[bytes, Depends(raw_body)], conn: Transaction
) -> Response:
    """Record up to 10,000 votes.

    Each vote has its own result, in order: created, duplicate, conflict or invalid, as for a single vote; a bad one
    does not touch its neighbours. 200 means that every vote whose result is created is stored for good; any other
    answer that none is.

    Needs scope `ingest`. Problems: `not-authenticated`, `scope-missing`; `malformed-body`, `media-type`,
    `body-too-large`; `invalid` when the body as a whole is not a batch; `database-unreachable`, `database-busy`:
    send it again later.
    """
    receipts = _record(conn, parse_body(VoteBatch, body).votes, caller)
    results = [
        VoteResult(
            index=i,
            status=receipt.status,
            id=receipt.id,
            detail=receipt.detail,
            errors=[ProblemFault(pointer=f.pointer, detail=f.detail) for f in receipt.faults] or None,
        )
        for i, receipt in enumerate(receipts)
    ]
    counts = VoteCounts.model_validate(Counter(receipt.status for receipt in receipts))
    answer = BatchAnswer(results=results, counts=counts)
    # Ten thousand results are written here, in this thread, not once more on the event loop.
    return Response(answer.model_dump_json(exclude_none=True), media_type="application/json")


def _record(conn: Transaction, items: list[Any], caller: Caller) -> list[VoteReceipt]:
    receipts: dict[int, VoteReceipt] = {}
    votes: dict[int, NewVote] = {}
    for i, item in enumerate(items):
        parsed = _parse_item(item)
        if isinstance(parsed, NewVote):
            votes[i] = parsed
        else:
            receipts[i] = invalid_receipt(parsed)
    recorded = record_votes(conn, list(votes.values()), api_key_id=caller.key_id)
    receipts.update(zip(votes, recorded, strict=True))
    return [receipts[i] for i in range(len(items))]


def _parse_item(item: object) -> NewVote | tuple[Fault, ...]:
    try:
        return Vote.model_validate(item).to_new_vote()
    except ValidationError as error:
        return validation_faults(error.errors(include_url=False, include_input=False))
