import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from difflib import get_close_matches
from operator import itemgetter
from typing import Annotated, Any, Protocol, get_args, get_origin
from urllib.parse import urlencode

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel
from sqlalchemy import Connection
from starlette.datastructures import QueryParams

from app.api.problems import invalid_input
from app.auth.callers import Caller, KnownCallers, Scope
from app.database.engine import Database
from app.database.errors import DatabaseBusyError
from app.errors import FieldError, NotAuthenticatedError, UnavailableError
from app.guard.admission import authorise, bearer_secret, key_dependency
from app.guard.limits import RateLimits
from app.guard.strangers import count_stranger
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


# None where the leaderboard is public and the request has no valid key.
OptionalReader = Annotated[Caller | None, key_dependency(_optional_read)]


async def refuse_unknown_parameters(request: Request) -> None:
    """Check that the request's route declares every query parameter; pages ignore what a link adds (?utm_source).

    Raises BadInputError.
    """
    route = request.scope.get("route")
    if request.scope["query_string"] and isinstance(route, APIRoute) and route.include_in_schema:
        check_parameters(request.query_params, declared_parameters(route.dependant))


def check_parameters(given: QueryParams, known: Mapping[str, bool]) -> None:
    """Check that all parameters are known.

    Raises BadInputError: it names each unknown parameter and the most similar known one.
    """
    unknown = [name for name in dict.fromkeys(given) if name not in known]
    if unknown:
        raise invalid_input(tuple(FieldError(f"/{name}", _explain(name, sorted(known))) for name in unknown))


def known_query(given: QueryParams, known: Mapping[str, bool]) -> bytes:
    """Return the known parameters alone, in one order: one that is given several times counts as the route reads it."""
    last = {name: value for name, value in given.items() if known.get(name) is False}
    several = [(name, value) for name, value in given.multi_items() if known.get(name)]
    return urlencode(sorted([*last.items(), *several], key=itemgetter(0))).encode()


def declared_parameters(dependant: Dependant) -> dict[str, bool]:
    """Return the query parameters of an endpoint, and whether each may be given several times."""
    found: dict[str, bool] = {}
    for parameter in dependant.query_params:
        model = parameter.field_info.annotation
        if isinstance(model, type) and issubclass(model, BaseModel):  # all parameters of the endpoint in one
            fields = model.model_fields.items()
            found |= {field.alias or name: _is_several(field.annotation) for name, field in fields}
        else:
            found[parameter.alias] = _is_several(model)
    for dependency in dependant.dependencies:
        found |= declared_parameters(dependency)
    return found


def _is_several(kind: Any) -> bool:
    return get_origin(kind) in (list, tuple) or any(map(_is_several, get_args(kind)))


def _explain(name: str, known: list[str]) -> str:
    similar = get_close_matches(name, known, n=1)
    if similar:
        return f"is not a parameter of this endpoint; did you mean {similar[0]}?"
    return f"is not a parameter of this endpoint, which has {', '.join(known) or 'none'}"
