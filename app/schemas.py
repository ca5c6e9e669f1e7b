"""The two kinds of bodies and answers, from which the schemas of every room are made."""

from collections.abc import Callable
from typing import TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict

T = TypeVar("T")


def refuse(error_of: Callable[[T], str | None]) -> AfterValidator:
    """Return what refuses the values that have an error by this function."""

    def check(value: T) -> T:
        if (error := error_of(value)) is not None:
            raise ValueError(error)
        return value

    return AfterValidator(check)


class FrozenModel(BaseModel):
    """What the service shows: it does not change once it is made."""

    model_config = ConfigDict(frozen=True)


class ClosedModel(BaseModel):
    """What callers send: a field that is not known is an error."""

    model_config = ConfigDict(extra="forbid")
