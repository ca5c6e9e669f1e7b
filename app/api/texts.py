"""Text that people write to people, as request bodies carry it."""

from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints


def _storable(value: str) -> str:
    if "\x00" in value:
        raise ValueError("must not contain the character U+0000")
    return value


Reason = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=2000),
    AfterValidator(_storable),
    Field(description="Why; kept with what was done."),
]
