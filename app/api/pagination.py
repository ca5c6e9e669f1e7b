"""Lists that are answered page by page.

A list endpoint asks its service for one item more than the page holds. If it gets that one, there is a next page. A
cursor holds the position of the page's last item; for callers it is a text without meaning.
"""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, TypeVar
from uuid import UUID

from fastapi import Query
from pydantic import AfterValidator, BaseModel, Field, TypeAdapter, ValidationError

from app.api.texts import storable
from app.errors import BadInputError, FieldError

T = TypeVar("T")
Item = TypeVar("Item")

# The parts of positions. Callers can forge cursors, so only values that the database can compare are allowed.
Number = Annotated[int, Field(ge=0, le=2**31 - 1)]
BigNumber = Annotated[int, Field(ge=0, le=2**63 - 1)]
Name = Annotated[str, AfterValidator(storable)]


Id = TypeAdapter(tuple[UUID])
"""The position in a list by id."""

PageSize = Annotated[int, Query(ge=1, le=500, description="Most items on a page.")]
Cursor = Annotated[str | None, Query(description="`next_cursor` of the page before.")]


class Page(BaseModel, Generic[Item]):
    """One page of a list."""

    items: list[Item]
    next_cursor: str | None = Field(description="Passed as `cursor`, gives the next page; null on the last.")

    @classmethod
    def model_parametrized_name(cls, params: tuple[Any, ...]) -> str:
        """Give the page of models the title ModelPage: generated clients take it for the class name."""
        return f"{params[0].__name__}Page"


def paginate(found: Sequence[Item], limit: int, position: Callable[[Any], tuple[object, ...]]) -> Page[Item]:
    """Return the first `limit` items as a page; `position` returns what the cursor says of the last one.

    `found` has one more where another page follows. Its items may know more than `Item`, for `position`: an answer has
    the fields of `Item` alone.
    """
    more = len(found) > limit
    return Page(items=list(found[:limit]), next_cursor=write_cursor(position(found[limit - 1])) if more else None)


def write_cursor(position: tuple[object, ...]) -> str:
    """Return the cursor of a position in a list."""
    text = json.dumps([x if isinstance(x, int | float) else str(x) for x in position])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_single(cursor: str | None, kind: TypeAdapter[tuple[T]]) -> T | None:
    """Return the single part of the position that a cursor stands for, as `read_cursor`."""
    position = read_cursor(cursor, kind)
    return position and position[0]


def read_cursor(cursor: str | None, kind: TypeAdapter[T]) -> T | None:
    """Return the position a cursor stands for, None for None.

    Raises BadInputError: the cursor was not made by the same list.
    """
    if cursor is None:
        return None
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        return kind.validate_json(text)
    except (binascii.Error, ValidationError, ValueError) as error:
        raise BadInputError("the cursor is not one of this list", (FieldError("/cursor", "unknown cursor"),)) from error
