"""Texts that people write, as request bodies carry them."""

from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints


def storable(value: str) -> str:
    """Return the text, or raise ValueError if the database cannot store it."""
    if "\x00" in value:
        raise ValueError("must not contain the character U+0000")
    return value


Reason = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=2000),
    AfterValidator(storable),
    Field(
        description="Why. Do not name a person or a key here: reasons are kept for ever, and those of what is removed "
        "are public."
    ),
]
