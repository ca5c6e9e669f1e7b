"""The service's errors. They know no HTTP, no SQL and no exit codes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class FieldError:
    """One place in the caller's input and what is wrong there.

    `pointer` is a JSON pointer (`/votes/3/winner`) or, for a file, `line 7, winner`.
    """

    pointer: str
    detail: str


def validation_message(error: Mapping[str, Any]) -> str:
    """Return what is wrong at one place by pydantic's error, for HTTP, the commands and the settings alike."""
    match error["type"]:
        case "extra_forbidden":
            return "is not a known field"
        case "missing":
            return "is required"
        case "model_type" | "model_attributes_type" | "dict_type":
            return "must be an object"
        case "value_error":
            return str(error["ctx"]["error"])
        case _:
            message = str(error["msg"])
            return message[0].lower() + message[1:]


class StableArenaError(Exception):
    """Root of every error that a user sees.

    Attributes
    ----------
    code : a stable, hyphenated word; the last part of the problem's type
    title : a short text, the same for every occurrence
    public : whether callers may see `detail`; if not, it says something about the machine and goes to the log
    detail : what happened this time
    errors : the places in the input that are wrong, if any
    n_errors : the number of such places; more than `errors` has where only the first are listed
    extensions : further members of the problem, such as the id of a vote
    """

    code: ClassVar[str] = "internal"
    title: ClassVar[str] = "The service failed"
    public: ClassVar[bool] = True

    def __init__(
        self,
        detail: str,
        errors: tuple[FieldError, ...] = (),
        *,
        n_errors: int | None = None,
        extensions: Mapping[str, str | int] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = errors
        self.n_errors = len(errors) if n_errors is None else n_errors
        self.extensions = dict(extensions or {})


class BadInputError(StableArenaError):
    """The input cannot be used. Sending it again unchanged cannot help."""

    code = "invalid"
    title = "The input is not valid"

    @classmethod
    def at(cls, pointer: str, detail: str) -> Self:
        """Return the error of an input that is wrong at one place."""
        return cls(f"{pointer} {detail}", (FieldError(pointer, detail),))


class NotAuthenticatedError(StableArenaError):
    """The caller has shown no valid key."""

    code = "not-authenticated"
    title = "A valid API key is needed"


class ScopeMissingError(StableArenaError):
    """The caller's key is valid but does not allow this."""

    code = "scope-missing"
    title = "The API key lacks a scope"


class NotFoundError(StableArenaError):
    """The requested thing does not exist."""

    code = "not-found"
    title = "Not found"


def found(one: T | None, what: str) -> T:
    """Return what was looked up. Raises NotFoundError: it is None."""
    if one is None:
        raise NotFoundError(f"there is no {what}")
    return one


class ConflictError(StableArenaError):
    """The request contradicts what is already on record."""

    code = "conflict"
    title = "Conflict with the record"


class PreconditionFailedError(StableArenaError):
    """What the caller wants to change is no longer as they saw it."""

    code = "precondition-failed"
    title = "It has changed since you read it"


class GoneError(StableArenaError):
    """What the request is about existed, and its time is over."""

    code = "gone"
    title = "No longer available"


class UnavailableError(StableArenaError):
    """The service cannot answer now. The same request may succeed later."""

    code = "unavailable"
    title = "Not available at the moment"
