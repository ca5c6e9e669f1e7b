"""Who may go on with a request: decided by its head, before a byte of its body is read."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Generic, TypeVar

from fastapi import Request
from fastapi.dependencies.models import Dependant

Admitted = TypeVar("Admitted")

_DECIDED = "admissions"


class Admission(Generic[Admitted]):
    """A dependency that decides by the head of a request alone: its key, its session, its address, its limits.

    FastAPI reads a body before it calls the dependencies. So `app.guard.bodies` looks for the admissions of a route and
    asks them before it passes on the first byte. What they decided is kept for the request: a dependency that asks
    again gets the same, and the request is counted once.

    Parameters
    ----------
    decide : returns what the endpoint gets, or raises why the request is refused; it must not read the body
    """

    def __init__(self, decide: Callable[[Request], Awaitable[Admitted]]) -> None:
        self._decide = decide

    async def __call__(self, request: Request) -> Admitted:
        """Return what was decided about the request, or decide."""
        decided: dict[Admission[Any], Any] = request.scope.setdefault(_DECIDED, {})
        if self not in decided:
            decided[self] = await self._decide(request)
        admitted: Admitted = decided[self]
        return admitted


def admissions_of(dependant: Dependant | None) -> tuple[Admission[Any], ...]:
    """Return the admissions among the dependencies of an endpoint, in the order in which FastAPI calls them."""
    return tuple(_walk(dependant)) if dependant is not None else ()


def _walk(dependant: Dependant) -> Iterator[Admission[Any]]:
    for dependency in dependant.dependencies:
        yield from _walk(dependency)
        if isinstance(dependency.call, Admission):
            yield dependency.call
