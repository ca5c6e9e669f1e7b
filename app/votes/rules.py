"""What a vote may say, on every way into the service: outcome words, tags, metadata, and two different models."""

import json
import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, get_args

from app.errors import FieldError
from app.naming.names import MAX_NAME_LENGTH, name_error

if TYPE_CHECKING:  # `rate` checks a file by these rules, without a database
    from app.naming.aliases import ModelNames

Winner = Literal["model_a", "model_b", "tie", "tie (bothbad)"]
WINNERS: tuple[Winner, ...] = get_args(Winner)
"""The outcome words. The votes table stores a word as its place here: 0 for `model_a`."""

SaidWinner = Literal[Winner, "both_bad", "bothbad"]
"""The words that a vote over HTTP may use; the last two mean `tie (bothbad)`."""
OUTCOMES: dict[SaidWinner, int] = {
    **{word: number for number, word in enumerate(WINNERS)},
    "both_bad": WINNERS.index("tie (bothbad)"),
    "bothbad": WINNERS.index("tie (bothbad)"),
}
"""How the votes table stores each word."""

MAX_CLOCK_SKEW = timedelta(minutes=5)
"""How far a sender's clock may be ahead of the service's: a vote that was cast later than that is refused."""
IN_FUTURE = f"must not lie in the future, by more than {MAX_CLOCK_SKEW.seconds // 60} minutes"

MAX_TAGS = 50
MAX_METADATA_LENGTH = 16_000
MAX_METADATA_DEPTH = 20

_CHARACTER = 12  # bytes that JSON may take for one: two escapes
MAX_VOTE_BYTES = _CHARACTER * ((MAX_TAGS + 5) * MAX_NAME_LENGTH + MAX_METADATA_LENGTH)
"""Length of the longest vote as JSON, names and values escaped in full."""


def tag_errors(tags: Sequence[str]) -> list[FieldError]:
    """Return everything that is wrong with a vote's tags."""
    errors = [FieldError("/tags", f"must be at most {MAX_TAGS}")] if len(tags) > MAX_TAGS else []
    return errors + [
        FieldError(f"/tags/{i}", error) for i, tag in enumerate(tags[:MAX_TAGS]) if (error := name_error(tag))
    ]


def metadata_error(metadata: dict[str, Any]) -> str | None:
    """Return why PostgreSQL could not store the metadata as `jsonb`, or why it is too large; None if it is neither."""
    too_long = f"must have at most {MAX_METADATA_LENGTH} characters as JSON"
    waiting: list[tuple[Any, int]] = [(metadata, 1)]
    while waiting:
        if len(waiting) > MAX_METADATA_LENGTH:  # each has a character at least: looking at millions would take seconds
            return too_long
        value, depth = waiting.pop()
        if depth > MAX_METADATA_DEPTH:
            return f"must not nest deeper than {MAX_METADATA_DEPTH} levels"
        if isinstance(value, dict):
            waiting += [(part, depth + 1) for pair in value.items() for part in pair]
        elif isinstance(value, list):
            waiting += [(part, depth + 1) for part in value]
        elif isinstance(value, float) and not math.isfinite(value):
            return "must not contain NaN or Infinity"
        elif isinstance(value, str) and not _storable_text(value):
            return "must not contain the character U+0000 or half of a surrogate pair"
    return too_long if len(json.dumps(metadata, ensure_ascii=False)) > MAX_METADATA_LENGTH else None


def model_errors(
    names: "ModelNames", model_a: str, model_b: str, voted_at: datetime | None, *, by_token: bool = False
) -> tuple[FieldError, ...]:
    """Return why a vote on these two models cannot be recorded: both names mean one model, or one is unknown."""
    a, b = names.number(model_a, voted_at), names.number(model_b, voted_at)
    if a is not None and a == b:
        return (FieldError("/model_b", "must differ from model_a: both are names of one model"),)
    refused = "a vote by a token adds none" if by_token else "unknown models are refused"
    unknown = f"is not the name of a model; {refused}"
    return tuple(
        FieldError(pointer, unknown) for pointer, number in (("/model_a", a), ("/model_b", b)) if number is None
    )


def _storable_text(value: str) -> bool:
    return "\x00" not in value and not any("\ud800" <= c <= "\udfff" for c in value)
