from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from app.api.problems import validation_error
from app.naming.names import MAX_NAME_LENGTH, NAME_PATTERN

SealedWinner = Literal["left", "right", "tie", "bothbad"]
SEALED_WINNERS: tuple[SealedWinner, ...] = get_args(SealedWinner)
"""The outcome words of sealed battles, in the order in which the votes table numbers outcomes."""
SaidSealedWinner = Literal[SealedWinner, "both_bad"]


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
    annotator: Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH, pattern=NAME_PATTERN)] | None = Field(
        None, description="Key of the annotator that the battle was drawn for. Another one is refused."
    )

    @property
    def outcome(self) -> int:
        """The outcome as votes store it."""
        return SEALED_WINNERS.index("bothbad" if self.winner == "both_bad" else self.winner)


def object_with_token(body: bytes) -> dict[str, Any] | None:
    """Return the object in a request's body if it has a token."""
    if b'"token"' not in body:  # nearly every vote: it is parsed once, as what it is
        return None
    try:
        content = from_json(body)
    except ValueError:
        return None
    return content if isinstance(content, dict) and "token" in content else None


def parse_sealed_vote(body: bytes) -> SealedVoteBody | None:
    """Return the sealed vote in a request's body; None if the body is no object with a token.

    Raises
    ------
    BadInputError
    """
    content = object_with_token(body)
    if content is None:
        return None
    try:
        return SealedVoteBody.model_validate(content)
    except ValidationError as error:
        raise validation_error(error.errors(include_url=False, include_input=False)) from None
