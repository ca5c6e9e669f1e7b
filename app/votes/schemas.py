"""Votes as they are sent: one, or many at once."""

from collections import Counter
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema

from app.database.timestamps import Timestamp
from app.errors import FieldError
from app.http.bodies import parse_body, refuse_ambiguous
from app.http.problems import field_errors
from app.naming.names import MAX_NAME_LENGTH
from app.votes.extras import MAX_METADATA_LENGTH, MAX_TAGS
from app.votes.vote import NewVote, Winner

MAX_BATCH = 10_000

_NAMED_ALWAYS = 4  # fields that every vote has, each with a text: two models, a winner, an annotator

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
    voted_at: Timestamp | None = Field(None, description="When the vote was cast, with its time zone.")
    # Made, not copied: pydantic would copy a default list or dictionary deeply for every vote.
    tags: list[Name] = Field(default_factory=list, max_length=MAX_TAGS, description="Words to group votes by.")
    metadata: dict[str, Any] = Field(
        default_factory=dict,
        description=f"Anything else worth keeping, at most {MAX_METADATA_LENGTH} characters as JSON.",
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


class _ValidBatch(BaseModel):
    """A batch of which every vote is valid."""

    model_config = ConfigDict(extra="forbid")

    votes: Annotated[list[Vote], Field(min_length=1, max_length=MAX_BATCH)]


def parse_vote(body: bytes) -> NewVote:
    """Return a vote that is sent by itself.

    Raises
    ------
    MalformedBodyError, BadInputError
    """
    vote = parse_body(Vote, body, unless=lambda vote: _has_no_other_text(body, [vote], names_around=0))
    return vote.to_new_vote()


def parse_batch(body: bytes) -> list[NewVote | tuple[FieldError, ...]]:
    """Return the votes of a batch, or what is wrong with those that are none.

    Raises
    ------
    MalformedBodyError, BadInputError
        The body as a whole is not a batch.
    """
    try:
        # All at once is several times faster, and nearly every batch is valid.
        votes = _ValidBatch.model_validate_json(body).votes
    except ValidationError:
        return [_parse_item(item) for item in parse_body(VoteBatch, body).votes]
    if not (_has_no_other_text(body, votes, names_around=1) or _names_each_field_once(body, votes)):
        refuse_ambiguous(body)
    return [vote.to_new_vote() for vote in votes]


def _has_no_other_text(body: bytes, votes: list[Vote], *, names_around: int) -> bool:
    """Whether votes are certain to be what `refuse_ambiguous` lets pass, which takes as long as the rest of parsing.

    Every text in a body, the name of a field or its value, has two quotation marks. All that the votes have are counted
    but times and metadata, of which only what is empty has no names of its own: whatever else the body holds, a name
    given twice at least, makes more of them.
    """
    texts = names_around
    for vote in votes:
        texts += len(vote.model_fields_set) + _NAMED_ALWAYS + (vote.battle_id is not None) + len(vote.tags)
    return body.count(b'"') == 2 * texts


def _names_each_field_once(body: bytes, votes: list[Vote]) -> bool:
    """Whether votes are certain to be so by their fields' names, where they have times.

    Without a backslash a name stands in the body letter by letter: once for every vote that has the field, unless it is
    a value too, as winners are, or is given twice. Where metadata has names of its own, nothing is certain.
    """
    if b"\\" in body or b'"metadata"' in body:
        return False
    values = Counter[str](vote.winner for vote in votes)
    given = Counter(name for vote in votes for name in vote.model_fields_set)
    names = {"votes": 1, **{name: given[name] + values[name] for name in Vote.model_fields}}
    return all(body.count(b'"%b"' % name.encode()) == count for name, count in names.items())


def _parse_item(item: object) -> NewVote | tuple[FieldError, ...]:
    try:
        return Vote.model_validate(item).to_new_vote()
    except ValidationError as error:
        return field_errors(error.errors(include_url=False, include_input=False))
