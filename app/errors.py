"""What can go wrong, in the service's own words: no HTTP, no SQL, no exit codes."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class FieldError:
    """One place in the caller's input and what is wrong there.

    `pointer` is a JSON pointer (`/votes/3/winner`) or, for a file, `line 7, winner`.
    """

    pointer: str
    detail: str


class StableArenaError(Exception):
    """Root of every error a user is told about.

    `code` is a stable, hyphenated word (the last part of the problem type), `title` the same for every
    occurrence, `detail` what happened this time, `errors` the places in the input, where there are any;
    `n_errors` how many there are where only the first are listed. A detail that is not `public` is the operator's:
    it says where things are on the machine.
    """

    code: ClassVar[str] = "internal"
    title: ClassVar[str] = "The service failed"
    public: ClassVar[bool] = True

    def __init__(self, detail: str, errors: tuple[FieldError, ...] = (), *, n_errors: int | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = errors
        self.n_errors = len(errors) if n_errors is None else n_errors


class BadInputError(StableArenaError):
    """What the caller sent cannot be used; sending it again unchanged cannot help."""

    code = "invalid"
    title = "The input is not valid"


class NotFoundError(StableArenaError):
    """The thing that was asked for does not exist."""

    code = "not-found"
    title = "Not found"


class ConflictError(StableArenaError):
    """The request contradicts what is already on record."""

    code = "conflict"
    title = "Conflict with the record"


class UnavailableError(StableArenaError):
    """The service cannot answer now; the same request may succeed later."""

    code = "unavailable"
    title = "Not available at the moment"
