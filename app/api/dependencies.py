import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from difflib import get_close_matches
from typing import Annotated, Any, Protocol

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel
from sqlalchemy import Connection

from app.api.problems import invalid_input
from app.auth.callers import Caller, KnownCallers, Scope
from app.database.engine import Database
from app.database.errors import DatabaseBusyError
from app.errors import FieldError, NotAuthenticatedError, UnavailableError
from app.guard.admission import authorise, bearer_secret, key_dependency
from app.guard.back_off import BackOff
from app.guard.errors import RateLimitedError
from app.guard.limits import RateLimits
from app.settings import Settings
from app.state import Part, ProcessState, state_of


def held(kind: type[Part]) -> Any:
    """Return a dependency that yields what the process holds of this class: `Annotated[Database, held(Database)]`."""

    # Asynchronous although it waits for nothing: FastAPI would run a plain function in a thread, which takes longer.
    async def find(request: Request) -> Part:
        return state_of(request.scope)[kind]

    return Depends(find)


HeldDatabase = Annotated[Database, held(Database)]
HeldSettings = Annotated[Settings, held(Settings)]


class Places(Protocol):
    """What has places for so many answers that stay open."""

    def place(self) -> AbstractContextManager[None]:
        """Take a place, or raise why there is none."""


def place_of(kind: type[Places]) -> Any:
    """Return a dependency that holds a place of what the process holds of this class, until the answer ends."""

    async def take_place(request: Request) -> AsyncIterator[None]:
        with state_of(request.scope)[kind].place():
            yield

    return Depends(take_place)


class RequestSlots(asyncio.Semaphore):
    """Slots for requests that use the database, as many as there are connections for them.

    Without the slots, all threads could wait for a connection, and none would be left for requests that have one.
    """


def provide_request_slots(state: ProcessState) -> None:
    """Hold the slots."""
    state[RequestSlots] = RequestSlots(state[Settings].database.pool_size)


async def _slot(request: Request) -> AsyncIterator[None]:
    """Hold one of the slots, before a thread is taken."""
    state = state_of(request.scope)
    slots = state[RequestSlots]
    try:
        async with asyncio.timeout(state[Settings].database.connect_timeout_seconds):
            await slots.acquire()
    except TimeoutError:
        raise DatabaseBusyError("every database connection for requests is in use") from None
    try:
        yield
    finally:
        slots.release()


_Slot = Depends(_slot, scope="function")
database_turn = asynccontextmanager(_slot)
"""The same for an endpoint that opens its transaction itself: `async with database_turn(request)`."""


def _transaction(database: HeldDatabase, _: Annotated[None, _Slot]) -> Iterator[Connection]:
    with database.begin() as conn:
        yield conn


def _read_view(database: HeldDatabase, _: Annotated[None, _Slot]) -> Iterator[Connection]:
    with database.read() as conn:
        yield conn


# scope="function" ends the transaction before the response is sent: 2xx means committed.
Transaction = Annotated[Connection, Depends(_transaction, scope="function")]
ReadView = Annotated[Connection, Depends(_read_view, scope="function")]


def require(*scopes: Scope, tokens: bool = False) -> Any:
    """Return a dependency that yields the caller and requires a scope, one of several: `Annotated[Caller, require(…)]`.

    Ingest tokens, which pages in browsers hold, are accepted only with `tokens`. Raises NotAuthenticatedError,
    ScopeMissingError or RateLimitedError.
    """

    async def authorised(request: Request) -> Caller:
        return await authorise(request, *scopes, tokens=tokens)

    return key_dependency(authorised, *scopes)


async def _optional_read(request: Request) -> Caller | None:
    """Return the reader. Where the leaderboard is public anyone may read: None for a request without a valid key."""
    state = state_of(request.scope)
    if not state[Settings].public_leaderboard:
        return await authorise(request, "read")
    secret = bearer_secret(request)
    if secret is not None:
        # A stale key, or one that cannot be looked up now, reads as a request without one does.
        with suppress(NotAuthenticatedError, UnavailableError):
            caller = await state[KnownCallers].identify(secret)
            state[RateLimits].count_caller(request.scope, caller)
            return caller
    await count_stranger(request)
    return None


async def count_stranger(request: Request) -> None:
    """Count a public read without a key. If the address has too many refusals too, this one comes late.

    Raises RateLimitedError.
    """
    state = state_of(request.scope)
    try:
        state[RateLimits].count_anonymous(request.scope)
    except RateLimitedError:
        await state[BackOff].wait(request.scope)
        raise


# None where the leaderboard is public and the request has no valid key.
OptionalReader = Annotated[Caller | None, key_dependency(_optional_read)]


async def refuse_unknown_parameters(request: Request) -> None:
    """Check that the request's route declares every query parameter.

    Raises BadInputError: it names each unknown parameter and the most similar declared one.
    """
    route = request.scope.get("route")
    if not request.scope["query_string"] or not isinstance(route, APIRoute) or not route.include_in_schema:
        return  # pages for people ignore what a link adds, such as ?utm_source
    known = sorted(_declared(route.dependant))
    unknown = [name for name in dict.fromkeys(request.query_params) if name not in known]
    if unknown:
        raise invalid_input(tuple(FieldError(f"/{name}", _explain(name, known)) for name in unknown))


def _declared(dependant: Dependant) -> Iterator[str]:
    for parameter in dependant.query_params:
        model = parameter.field_info.annotation
        if isinstance(model, type) and issubclass(model, BaseModel):  # all parameters of the endpoint in one
            yield from (field.alias or name for name, field in model.model_fields.items())
        else:
            yield parameter.alias
    for dependency in dependant.dependencies:
        yield from _declared(dependency)


def _explain(name: str, known: list[str]) -> str:
    similar = get_close_matches(name, known, n=1)
    if similar:
        return f"is not a parameter of this endpoint; did you mean {similar[0]}?"
    return f"is not a parameter of this endpoint, which has {', '.join(known) or 'none'}"
