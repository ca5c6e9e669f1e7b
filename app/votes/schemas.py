"""Votes in requests and in answers. The schema `Vote` is the one place that checks a vote."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args
from uuid import UUID

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from app.annotators.kinds import Kind
from app.api.problems import ProblemFieldError, validation_error
from app.database.timestamps import StorableTimestamp
from app.errors import FieldError
from app.naming.names import Label, Name
from app.rating.settings import MAX_FEATURES
from app.schemas import ClosedModel, refuse
from app.votes.prompts import MAX_PROMPT_LENGTH
from app.votes.rules import (
    IN_FUTURE,
    MAX_CLOCK_SKEW,
    MAX_METADATA_LENGTH,
    MAX_METADATA_VALUES,
    MAX_TAGS,
    MOST_RANKED,
    Criterion,
    Features,
    SaidWinner,
    metadata_error,
    places_of,
    ranking_error,
)

MAX_BATCH = 10_000

Status = Literal["created", "duplicate", "conflict", "invalid"]
SealedWinner = Literal["left", "right", "tie", "bothbad"]
SEALED_WINNERS: tuple[SealedWinner, ...] = get_args(SealedWinner)
"""The outcome words of sealed battles, in the order in which the votes table numbers outcomes."""
SaidSealedWinner = Literal[SealedWinner, "both_bad"]

Body = TypeVar("Body", bound=BaseModel)


def _time_error(time: datetime) -> str | None:
    return IN_FUTURE if time > datetime.now(UTC) + MAX_CLOCK_SKEW else None


class _Pair(BaseModel):
    model_a: Name = Field(description="Name of one model.")
    model_b: Name = Field(description="Name of the other model.")
    winner: SaidWinner = Field(
        description="The model with the better answer; tie (bothbad), or both_bad, if both answers were bad."
    )

    @field_validator("model_b")
    @classmethod
    def _differs_from_model_a(cls, model_b: str, info: ValidationInfo) -> str:
        if model_b == info.data.get("model_a"):
            raise ValueError("must differ from model_a")
        return model_b


class _Order(BaseModel):
    ranking: Annotated[list[list[Name]], refuse(ranking_error)] = Field(
        description=f"The models in groups, the best first; those of one group are equal. 2 to {MOST_RANKED} models, "
        'each once. The best of several is `[["best"], ["second", "third"]]`.'
    )


class _Said(BaseModel):
    annotator: Name = Field(description="Opaque key of the annotator; the same person or judge always has the same.")
    annotator_kind: Kind | None = Field(
        None, description="human, or judge: an LLM. The first vote that says it holds; another kind is refused later."
    )
    battle_id: Name | None = Field(
        None, description="The pairing that was judged; an annotator judges it once by each criterion."
    )
    criterion: Criterion | None = Field(
        None,
        description="The question that the vote answers, such as `accuracy`; by default `overall`, the one question of "
        "the main leaderboard. Each other criterion has a leaderboard of its own, `criterion=accuracy`.",
    )
    voted_at: Annotated[StorableTimestamp, refuse(_time_error)] | None = Field(
        None,
        validation_alias=AliasChoices("voted_at", "timestamp"),
        description="When the vote was cast, with its time zone; at most 5 minutes ahead of the service's clock. "
        "May be called `timestamp` too.",
    )
    # Factories, because pydantic copies a default list or dictionary deeply for every vote.
    tags: list[Label] = Field(
        default_factory=list,
        max_length=MAX_TAGS,
        description="Words to group votes by; those that begin with `criterion=` have no leaderboard.",
    )
    prompt: Annotated[str, Field(max_length=MAX_PROMPT_LENGTH)] | None = Field(
        None,
        description="What the models were asked: the text, or an id of it. Votes on one prompt err together, and the "
        "intervals allow for it. Only a key of it is kept.",
    )
    metadata: Annotated[dict[str, Any], refuse(metadata_error)] = Field(
        default_factory=dict,
        description=f"Anything else worth keeping: at most {MAX_METADATA_LENGTH} characters as JSON, and "
        f"{MAX_METADATA_VALUES} values at all levels.",
    )


class Vote(_Said, _Pair):  # the fields of the last come first
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

    features: Features | None = Field(
        None,
        description="What the answers of model_a and model_b measure, for style control, as "
        f'`{{"length": [120, 80]}}`: at most {MAX_FEATURES} names.',
    )

    @property
    def names(self) -> list[str]:
        """The name of each model, in their order."""
        return [self.model_a, self.model_b]

    @property
    def models(self) -> dict[str, str]:
        """The place in the vote → the name of each model."""
        return {"/model_a": self.model_a, "/model_b": self.model_b}


class RankedVote(_Said, _Order):
    """One annotator's order of several models: one vote, which the fit reads as a vote for each pair of them."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "ranking": [["mistral-large"], ["qwen-72b", "phi-4"]],
                    "annotator": "worker-58",
                    "battle_id": "battle-18",
                }
            ]
        },
    )

    @property
    def names(self) -> list[str]:
        """The name of each model, the best first."""
        return [name for group in self.ranking for name in group]

    @property
    def models(self) -> dict[str, str]:
        """The place in the vote → the name of each model."""
        return places_of(self.ranking)


class VoteBatch(ClosedModel):
    """Many votes. An invalid one does not touch the others."""

    # Endpoints parse the items one by one. As a union here, errors of the whole would name places that are not there.
    votes: Annotated[
        list[Vote],
        Field(
            min_length=1,
            max_length=MAX_BATCH,
            json_schema_extra={
                "items": {"anyOf": [{"$ref": f"#/components/schemas/{name}"} for name in ("Vote", "RankedVote")]}
            },
        ),
    ]


class SealedVoteBody(BaseModel):
    """A verdict on a sealed battle. The token is all that its holder needs."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"token": "AZq9xM4HfEOW3cZ0r1cEoKk0m2yJ0v7hQ5nUu1sXbTe8", "winner": "left"}]},
    )

    token: Annotated[str, Field(max_length=200)] = Field(description="The token of the battle.")
    winner: SaidSealedWinner = Field(
        description="The side with the better answer; bothbad, or both_bad, if both answers were bad."
    )
    annotator: Name | None = Field(
        None, description="Key of the annotator that the battle was drawn for. Another one is refused."
    )
    reveal: bool | None = Field(
        None,
        description="false: the answer does not name the models, and the vote can be taken back for some seconds; sent "
        "again without, it names them.",
    )

    @property
    def reveals(self) -> bool:
        """Whether the answer names the models."""
        return self.reveal is not False

    @property
    def outcome(self) -> int:
        """The outcome as votes store it."""
        return SEALED_WINNERS.index("bothbad" if self.winner == "both_bad" else self.winner)


class RecordedVoteAnswer(BaseModel):
    """A vote that is on record."""

    id: UUID = Field(description="The vote on record; for a duplicate, the first one.")
    status: Status = Field(description="created or duplicate.")
    detail: str | None = Field(None, description="Says if the vote on record is retracted.")
    replaces: UUID | None = Field(None, description="The annotator's earlier vote that this one replaces.")
    pairs: int | None = Field(None, description="Of a ranking that was created: the pairs of models that it orders.")
    left: str | None = Field(None, description="Of a vote on a sealed battle: the model on the left.")
    right: str | None = Field(None, description="Of a vote on a sealed battle: the model on the right.")


_SHOWN = ("id", "status", "detail", "errors", "replaces", "pairs", "left", "right")


class VoteReceipt(NamedTuple):
    """What became of one vote.

    Attributes
    ----------
    id : the vote on record: this one if it was created, the earlier one for a duplicate or a conflict; None if invalid
    detail : why it was not created, where there is more to say
    errors : the places that make it invalid
    replaces : the annotator's earlier vote whose place a created one has taken
    pairs : of models that a created ranking orders
    left, right : names of the two models, where a vote on a sealed battle reveals them
    """

    status: Status
    id: UUID | None = None
    detail: str | None = None
    errors: tuple[FieldError, ...] = ()
    replaces: UUID | None = None
    pairs: int | None = None
    left: str | None = None
    right: str | None = None

    @classmethod
    def invalid(cls, errors: tuple[FieldError, ...]) -> "VoteReceipt":
        """Return the receipt of a vote with these errors."""
        return cls("invalid", detail="the vote is not valid", errors=errors)

    def shown(self) -> dict[str, Any]:
        """Return what answers say of it, as `RecordedVoteAnswer` and `VoteResult` describe: they would take long."""
        return {name: value for name in _SHOWN if (value := getattr(self, name))}


class VoteResult(BaseModel):
    """What became of one vote of a batch."""

    index: int = Field(description="Place in the batch, from 0.")
    status: Status
    id: UUID | None = Field(None, description="The vote on record; for a duplicate or a conflict, the earlier one.")
    replaces: UUID | None = Field(None, description="The annotator's earlier vote that this one replaces.")
    pairs: int | None = Field(None, description="Of a ranking that was created: the pairs of models that it orders.")
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


def _named_kind(content: Any) -> str:
    """Return what an object is by the field that no other kind has: a ranking, or a vote on a pair."""
    return "ranking" if isinstance(content, dict) and "ranking" in content else "pair"


def _kind(content: Any) -> str:
    return "token" if isinstance(content, dict) and "token" in content else _named_kind(content)


_Named = Annotated[Vote, Tag("pair")] | Annotated[RankedVote, Tag("ranking")]
_PAIR = TypeAdapter(Vote)
_NAMED = TypeAdapter[Vote | RankedVote](Annotated[_Named, Discriminator(_named_kind)])
_ANY = TypeAdapter[Vote | RankedVote | SealedVoteBody](
    Annotated[_Named | Annotated[SealedVoteBody, Tag("token")], Discriminator(_kind)]
)


def parse_named(item: bytes) -> Vote | RankedVote:
    """Return what a vote of a batch says. Raises ValidationError, of which `errors_of` tells the places."""
    return _parse_pair(item) or _NAMED.validate_json(item)


def _parse_pair(item: bytes) -> Vote | None:
    """Return a valid vote on a pair, as most are: to look at its kind first takes half as long again."""
    if b'"ranking"' in item or b'"token"' in item:
        return None
    try:
        return _PAIR.validate_json(item)
    except ValidationError:
        return None


def errors_of(error: ValidationError) -> list[dict[str, Any]]:
    """Return what is wrong with a vote, without what was sent. Pydantic's places begin with the kind of vote."""
    return [{**one, "loc": one["loc"][1:]} for one in error.errors(include_url=False, include_input=False)]


def parse_vote(body: bytes) -> Vote | RankedVote | SealedVoteBody:
    """Return what the body of a request with one vote says. Raises MalformedBodyError or BadInputError."""
    try:
        return _parse_pair(body) or _ANY.validate_json(body)
    except ValidationError as error:
        raise validation_error(errors_of(error)) from None


def parse_as(body_type: type[Body], body: bytes) -> Body:
    """Return what a request's body says, which its endpoint parses itself.

    Raises MalformedBodyError or BadInputError.
    """
    try:
        return body_type.model_validate_json(body)
    except ValidationError as error:
        raise validation_error(error.errors(include_url=False, include_input=False)) from None
