"""Cursors: where the next page of a list begins, as text that means nothing to the caller."""

import base64
import binascii
import json
from typing import Annotated, TypeVar

from fastapi import Query
from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from app.errors import BadInputError, FieldError
from app.http.texts import storable

T = TypeVar("T")

# What positions are made of: only what the database can compare, as anybody can write a cursor.
Number = Annotated[int, Field(ge=0, le=2**31 - 1)]
BigNumber = Annotated[int, Field(ge=0, le=2**63 - 1)]
Name = Annotated[str, AfterValidator(storable)]


PageSize = Annotated[int, Query(ge=1, le=500, description="Most items on a page.")]


def write_cursor(*position: object) -> str:
    """Return the cursor of a position in a list."""
    text = json.dumps([x if isinstance(x, int | float) else str(x) for x in position])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_cursor(cursor: str | None, kind: TypeAdapter[T]) -> T | None:
    """Return the position a cursor stands for, None for None.

    Raises
    ------
    BadInputError
        The cursor was not made by the same list.
    """
    if cursor is None:
        return None
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        return kind.validate_json(text)
    except (binascii.Error, ValidationError, ValueError) as error:
        raise BadInputError("the cursor is not one of this list", (FieldError("/cursor", "unknown cursor"),)) from error
