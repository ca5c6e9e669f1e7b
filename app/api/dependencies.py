import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from difflib import get_close_matches
from typing import Annotated, Any

from fastapi import Depends, Request, Security
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel
from sqlalchemy import Connection

from app.api.problems import invalid_input
from app.auth.callers import Caller, Scope
from app.database.errors import DatabaseBusyError
from app.errors import FieldError, NotAuthenticatedError, ScopeMissingError, UnavailableError
from app.guard.admission import Admission
from app.guard.errors import MediaTypeError, RateLimitedError
from app.services import Services, services_of

_bearer = HTTPBearer(
    scheme_name="apiKey",
    description="An API key, as `Authorization: Bearer sa_…`. `stable-arena keys create` makes one.",
    auto_error=False,
)
Credentials = Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)]


# Asynchronous although it waits for nothing: FastAPI would run a plain function in a thread, which takes longer.
async def get_services(request: Request) -> Services:
    """Return what the process holds: the database, the settings, the caches."""
    return services_of(request)


ProcessServices = Annotated[Services, Depends(get_services)]


async def require_json(request: Request) -> None:
    """Refuse a body whose media type is not JSON. A request without a body passes.

    Raises
    ------
    MediaTypeError
    """
    headers = request.headers
    if headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
        return
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise MediaTypeError("send the body as JSON: Content-Type: application/json")


async def _slot(request: Request) -> AsyncIterator[None]:
    """Hold one of the slots for requests that use the database, before a thread is taken.

    Without the slots, all threads could wait for a connection, and none would be left for requests that have one.
    """
    services = services_of(request)
    try:
        async with asyncio.timeout(services.settings.database.connect_timeout_seconds):
            await services.request_slots.acquire()
    except TimeoutError:
        raise DatabaseBusyError("every database connection for requests is in use") from None
    try:
        yield
    finally:
        services.request_slots.release()


_Slot = Depends(_slot, scope="function")
database_turn = asynccontextmanager(_slot)
"""The same for an endpoint that opens its transaction itself: `async with database_turn(request)`."""


def _transaction(services: ProcessServices, _: Annotated[None, _Slot]) -> Iterator[Connection]:
    with services.database.begin() as conn:
        yield conn


def _read_view(services: ProcessServices, _: Annotated[None, _Slot]) -> Iterator[Connection]:
    with services.database.read() as conn:
        yield conn


# scope="function" ends the transaction before the response is sent: 2xx means committed.
Transaction = Annotated[Connection, Depends(_transaction, scope="function")]
ReadView = Annotated[Connection, Depends(_read_view, scope="function")]


def require(*scopes: Scope, tokens: bool = False) -> Any:
    """Return a dependency that yields the caller and requires a scope, one of several: `Annotated[Caller, require(…)]`.

    Ingest tokens, which pages in browsers hold, are accepted only with `tokens`.

    Raises
    ------
    NotAuthenticatedError, ScopeMissingError, RateLimitedError
    """

    async def authorised(request: Request) -> Caller:
        return await authorise(request, *scopes, tokens=tokens)

    return key_dependency(authorised, *scopes)


def key_dependency(decide: Callable[[Request], Awaitable[Any]], *scopes: Scope) -> Any:
    """Return a dependency that decides by the key of a request; FastAPI describes these scopes."""
    return Security(_KeyAdmission(decide), scopes=list(scopes))


class _KeyAdmission(Admission[Any]):
    async def __call__(self, request: Request, _: Credentials = None) -> Any:
        return await super().__call__(request)


async def authorise(request: Request, *scopes: Scope, tokens: bool = False) -> Caller:
    """Return the holder of the request's key and require one of these scopes.

    Raises
    ------
    NotAuthenticatedError, ScopeMissingError, RateLimitedError
    """
    caller = await _identify(request, tokens=tokens)
    if not any(map(caller.may, scopes)):
        raise ScopeMissingError(f"this needs a key with the scope {' or '.join(scopes)}")
    return caller


async def _identify(request: Request, *, tokens: bool) -> Caller:
    """Return the holder of the request's key and count the request towards the caller's limit."""
    services = services_of(request)
    limits, secret = services.rate_limits, bearer_secret(request)
    if secret is None:
        limits.count_anonymous(request.scope)
        raise NotAuthenticatedError("send an API key: Authorization: Bearer sa_…")
    try:
        caller = await services.known_callers.identify(secret)
    except NotAuthenticatedError:
        limits.count_anonymous(request.scope)  # guessing keys must be slow
        raise
    limits.count_caller(request.scope, caller)
    if caller.token_id is not None and not tokens:
        raise ScopeMissingError("an ingest token may only post votes")
    return caller


def bearer_secret(request: Request) -> str | None:
    """Return the key that a request has, or None, as FastAPI's HTTPBearer does."""
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    return secret.strip() or None if scheme.lower() == "bearer" else None


async def _optional_read(request: Request) -> Caller | None:
    """Return the reader. Where the leaderboard is public anyone may read: None for a request without a valid key."""
    services = services_of(request)
    if not services.settings.public_leaderboard:
        return await authorise(request, "read")
    secret = bearer_secret(request)
    if secret is not None:
        # A stale key, or one that cannot be looked up now, reads as a request without one does.
        with suppress(NotAuthenticatedError, UnavailableError):
            caller = await services.known_callers.identify(secret)
            services.rate_limits.count_caller(request.scope, caller)
            return caller
    await count_stranger(request)
    return None


async def count_stranger(request: Request) -> None:
    """Count a public read without a key. If the address has too many refusals too, this one comes late.

    Raises
    ------
    RateLimitedError
    """
    services = services_of(request)
    try:
        services.rate_limits.count_anonymous(request.scope)
    except RateLimitedError:
        await services.back_off.wait(request.scope)
        raise


# None where the leaderboard is public and the request has no valid key.
OptionalReader = Annotated[Caller | None, Security(_KeyAdmission(_optional_read))]


async def refuse_unknown_parameters(request: Request) -> None:
    """Check that the request's route declares every query parameter.

    Raises
    ------
    BadInputError
        It names each unknown parameter and the most similar declared one.
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
