"""Votes and retractions in requests and in answers. The schema `Vote` is the one place that checks a vote."""

from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar
from uuid import UUID

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from app.api.problems import ProblemFieldError, field_errors, invalid_input, validation_error
from app.api.texts import Reason
from app.database.timestamps import StorableTimestamp
from app.errors import FieldError
from app.guard.bodies import SMALL
from app.guard.errors import MalformedBodyError
from app.naming.names import MAX_NAME_LENGTH, NAME_PATTERN
from app.votes.batch_items import BatchItems
from app.votes.queries import Target
from app.votes.receipts import Status
from app.votes.rules import (
    IN_FUTURE,
    MAX_CLOCK_SKEW,
    MAX_METADATA_LENGTH,
    MAX_METADATA_VALUES,
    MAX_TAGS,
    MAX_VOTE_BYTES,
    SaidWinner,
    Winner,
    metadata_error,
)

MAX_BATCH = 10_000
MAX_EXPLAINED = 100
"""Invalid votes of a batch that say what is wrong with them."""
MAX_PLACES = 100
"""Wrong places of such a vote that are named one by one."""
_MAX_PARTS = 2 * MAX_METADATA_VALUES + MAX_TAGS + 100  # a value has a comma and an opening bracket at most
_TOO_LONG = (
    FieldError("", f"is longer than any vote: {MAX_VOTE_BYTES:,} bytes, with {MAX_METADATA_VALUES} values in metadata"),
)
_UNEXPLAINED = (FieldError("", f"is invalid; only the first {MAX_EXPLAINED} invalid votes of a batch say why"),)

Body = TypeVar("Body", bound=BaseModel)
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH, pattern=NAME_PATTERN)]


def _storable(metadata: dict[str, Any]) -> dict[str, Any]:
    if (error := metadata_error(metadata)) is not None:
        raise ValueError(error)
    return metadata


def _cast_by_now(time: datetime) -> datetime:
    if time > datetime.now(UTC) + MAX_CLOCK_SKEW:
        raise ValueError(IN_FUTURE)
    return time


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
    winner: SaidWinner = Field(
        description="The model with the better answer; tie (bothbad), or both_bad, if both answers were bad."
    )
    annotator: Name = Field(description="Opaque key of the annotator; the same person or judge always has the same.")
    battle_id: Name | None = Field(None, description="The pairing that was judged; an annotator judges it once.")
    voted_at: Annotated[StorableTimestamp, AfterValidator(_cast_by_now)] | None = Field(
        None,
        validation_alias=AliasChoices("voted_at", "timestamp"),
        description="When the vote was cast, with its time zone; at most 5 minutes ahead of the service's clock. "
        "May be called `timestamp` too.",
    )
    # Factories, because pydantic copies a default list or dictionary deeply for every vote.
    tags: list[Name] = Field(default_factory=list, max_length=MAX_TAGS, description="Words to group votes by.")
    metadata: Annotated[dict[str, Any], AfterValidator(_storable)] = Field(
        default_factory=dict,
        description=f"Anything else worth keeping: at most {MAX_METADATA_LENGTH} characters as JSON, and "
        f"{MAX_METADATA_VALUES} values at all levels.",
    )

    @field_validator("model_b")
    @classmethod
    def _differs_from_model_a(cls, model_b: str, info: ValidationInfo) -> str:
        if model_b == info.data.get("model_a"):
            raise ValueError("must differ from model_a")
        return model_b


class VoteBatch(BaseModel):
    """Many votes. An invalid one does not touch the others."""

    model_config = ConfigDict(extra="forbid")

    votes: Annotated[list[Vote], Field(min_length=1, max_length=MAX_BATCH)]


class RecordedVoteAnswer(BaseModel):
    """A vote that is on record."""

    id: UUID = Field(description="The vote on record; for a duplicate, the first one.")
    status: Status = Field(description="created or duplicate.")
    detail: str | None = Field(None, description="Says if the vote on record is retracted.")
    replaces: UUID | None = Field(None, description="The annotator's earlier vote that this one replaces.")
    left: str | None = Field(None, description="Of a vote on a sealed battle: the model on the left.")
    right: str | None = Field(None, description="Of a vote on a sealed battle: the model on the right.")


class VoteResult(BaseModel):
    """What became of one vote of a batch."""

    index: int = Field(description="Place in the batch, from 0.")
    status: Status
    id: UUID | None = Field(None, description="The vote on record; for a duplicate or a conflict, the earlier one.")
    replaces: UUID | None = Field(None, description="The annotator's earlier vote that this one replaces.")
    detail: str | None = Field(None, description="Why it was not recorded.")
    errors: list[ProblemFieldError] | None = Field(None, description="The places in an invalid vote.")


class VoteCounts(BaseModel):
    """How many votes of a batch have each status."""

    created: int = 0
    duplicate: int = 0
    conflict: int = 0
    invalid: int = 0


class BatchAnswer(BaseModel):
    """One result for each vote, in order."""

    results: list[VoteResult]
    counts: VoteCounts


def parse_vote(body: bytes) -> Vote:
    """Return the vote in a request's body.

    Raises
    ------
    MalformedBodyError, BadInputError
    """
    return _parse(Vote, body)


def parse_batch(body: bytes) -> list[Vote | tuple[FieldError, ...]]:
    """Return the votes of a batch, and the errors in the place of each invalid one.

    The first invalid votes name their errors, the others only say that they are invalid. Every vote is parsed once and
    by itself: other threads can run in between.

    Raises
    ------
    MalformedBodyError, BadInputError
        The body as a whole is not a batch.
    """
    items = BatchItems(body, most=MAX_BATCH)
    if items.count > MAX_BATCH:
        raise invalid_input((FieldError("/votes", f"must be at most {MAX_BATCH:,}"),))
    if not items.count:
        if len(body) > SMALL:  # saying more precisely what is wrong takes seconds
            raise MalformedBodyError('the body is not {"votes": […]} in JSON, with at least one vote and nothing else')
        return list(_parse(VoteBatch, body).votes)
    votes: list[Vote | tuple[FieldError, ...]] = []
    invalid = 0
    for i, (item, parts) in enumerate(items):
        if len(item) > MAX_VOTE_BYTES or parts > _MAX_PARTS:  # no vote: parsing it would hold up other threads
            votes.append(_TOO_LONG)
            continue
        try:
            votes.append(Vote.model_validate_json(item))
        except ValidationError as error:
            votes.append(_item_errors(i, error, explained=invalid < MAX_EXPLAINED))
            invalid += 1
    return votes


def _item_errors(index: int, error: ValidationError, *, explained: bool) -> tuple[FieldError, ...]:
    """Return what is wrong with one vote of a batch, at a cost that does not grow with its length."""
    count = error.error_count()
    if count > MAX_PLACES:
        return (FieldError("", f"is wrong in {count:,} places"),)
    if not explained and count > 1:
        return _UNEXPLAINED
    errors = error.errors(include_url=False, include_input=False)
    if errors[0]["type"] == "json_invalid":
        raise MalformedBodyError(f"vote {index} is not valid JSON: {errors[0]['ctx']['error']}")
    return field_errors(errors) if explained else _UNEXPLAINED


def _parse(body_type: type[Body], body: bytes) -> Body:
    try:
        return body_type.model_validate_json(body)
    except ValidationError as error:
        raise validation_error(error.errors(include_url=False, include_input=False)) from None


class VoteRetraction(BaseModel):
    """Why a vote is retracted."""

    model_config = ConfigDict(extra="forbid")

    reason: Reason


class RetractionRequest(BaseModel):
    """Which votes to retract, and why."""

    model_config = ConfigDict(extra="forbid")

    target: Target
    id: str = Field(
        min_length=1,
        max_length=MAX_NAME_LENGTH,
        description="The id of a vote, a battle or an import; the name of a model; the id or the key of an annotator.",
    )
    reason: Reason


class Retraction(BaseModel):
    """Votes that were retracted. They stay on record and do not count, from the next refit on."""

    model_config = ConfigDict(frozen=True)

    id: UUID
    target: Target
    target_id: str = Field(
        description="The id of the vote, battle, annotator or import; the name of the model at the time."
    )
    reason: str
    retracted_by: str = Field(description="Name of the key that was used.")
    votes: int = Field(description="Number of votes that it retracted, without those that were retracted before.")
    retracted_at: datetime
    withdrawn_by: str | None = Field(None, description="Name of the key that took it back; null while it holds.")
    withdrawal_reason: str | None = None
    withdrawn_at: datetime | None = None


class RetractionWithdrawal(BaseModel):
    """Why a retraction is taken back."""

    model_config = ConfigDict(extra="forbid")

    reason: Reason


class VoteOnRecord(BaseModel):
    """A vote as it was recorded, with the names that its models and its annotator have today."""

    model_config = ConfigDict(frozen=True)

    id: UUID
    model_a: str
    model_b: str
    winner: Winner
    annotator: str
    annotator_id: UUID
    battle_id: str | None
    voted_at: datetime | None
    received_at: datetime
    tags: list[str]
    metadata: dict[str, Any] | None
    api_key_id: UUID | None = Field(description="The key that sent it; null for an import.")
    import_id: UUID | None
    sealed: bool = Field(description="Whether a battle's token cast it, on a pair that the service had drawn.")
    retraction: Retraction | None = Field(description="What retracted it; null for a vote that counts.")
    replaced_by: UUID | None = Field(description="The annotator's later verdict on the battle, if there is one.")
