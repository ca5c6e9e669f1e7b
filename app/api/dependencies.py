import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Annotated, Any, cast

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy import Connection

from app.api.callers import KnownCallers
from app.arena.ingest import VoteQueue
from app.arena.keys import Caller, NotAuthenticatedError, Scope, ScopeMissingError
from app.arena.previews import PolicyPreviews
from app.settings import Settings
from app.store.database import Database, DatabaseBusyError

_bearer = HTTPBearer(
    scheme_name="apiKey",
    description="An API key, as `Authorization: Bearer sa_…`. `stable-arena keys create` makes one.",
    auto_error=False,
)
Credentials = Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)]


# Asynchronous although they wait for nothing: FastAPI runs plain functions in a thread, which costs more than they do.
async def get_database(request: Request) -> Database:
    """Return the database that the application opened."""
    return cast("Database", request.app.state.database)


def get_settings(request: Request) -> Settings:
    """Return the application's settings."""
    return cast("Settings", request.app.state.settings)


async def get_vote_queue(request: Request) -> VoteQueue:
    """Return the queue in which single votes wait for their shared commit."""
    return cast("VoteQueue", request.app.state.vote_queue)


async def get_previews(request: Request) -> PolicyPreviews:
    """Return what tries policies out."""
    return cast("PolicyPreviews", request.app.state.previews)


async def _slot(request: Request) -> AsyncIterator[None]:
    """Wait for a turn at the database before a thread is taken.

    Threads that all wait for a connection would leave none to the requests that hold one.
    """
    slots = cast("asyncio.Semaphore", request.app.state.request_slots)
    try:
        async with asyncio.timeout(get_settings(request).database.connect_timeout_seconds):
            await slots.acquire()
    except TimeoutError:
        raise DatabaseBusyError("every database connection for requests is in use") from None
    try:
        yield
    finally:
        slots.release()


_Slot = Depends(_slot, scope="function")


def _transaction(
    database: Annotated[Database, Depends(get_database)], _: Annotated[None, _Slot]
) -> Iterator[Connection]:
    with database.begin() as conn:
        yield conn


def _read_view(database: Annotated[Database, Depends(get_database)], _: Annotated[None, _Slot]) -> Iterator[Connection]:
    with database.read() as conn:
        yield conn


# scope="function" ends the transaction before the response is sent: 2xx means committed.
Transaction = Annotated[Connection, Depends(_transaction, scope="function")]
ReadView = Annotated[Connection, Depends(_read_view, scope="function")]
Previews = Annotated[PolicyPreviews, Depends(get_previews)]
Queue = Annotated[VoteQueue, Depends(get_vote_queue)]


def require(scope: Scope) -> Any:
    """Return the dependency that yields the caller, who must have `scope`: `Annotated[Caller, require("read")]`.

    Raises
    ------
    NotAuthenticatedError, ScopeMissingError
    """
    return Security(_authorised(scope), scopes=[scope])


async def _optional_read(request: Request, credentials: Credentials) -> Caller | None:
    if credentials is None and get_settings(request).public_leaderboard:
        if "authorization" in request.headers:
            raise NotAuthenticatedError("the Authorization header must be: Bearer API-KEY")
        return None
    return await _authorised("read")(request, credentials)


# Nobody where the leaderboard is public and no key is shown; whoever shows a key must have a good one.
OptionalReader = Annotated[Caller | None, Security(_optional_read)]


def _authorised(scope: Scope) -> Callable[[Request, HTTPAuthorizationCredentials | None], Awaitable[Caller]]:
    async def authorised(request: Request, credentials: Credentials) -> Caller:
        if credentials is None:
            raise NotAuthenticatedError("send an API key: Authorization: Bearer sa_…")
        known = cast("KnownCallers", request.app.state.known_callers)
        caller = await known.identify(credentials.credentials)
        if not caller.may(scope):
            raise ScopeMissingError(f"this needs a key with the scope {scope}")
        return caller

    return authorised
