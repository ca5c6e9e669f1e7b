"""Who may go on with a request: decided by its head, before a byte of its body is read."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Request, Security
from fastapi.dependencies.models import Dependant
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from app.auth.callers import Caller, KnownCallers, Scope
from app.errors import NotAuthenticatedError, ScopeMissingError
from app.guard.limits import RateLimits
from app.state import state_of

Admitted = TypeVar("Admitted")

_DECIDED = "admissions"
_bearer = HTTPBearer(
    scheme_name="apiKey",
    description="An API key, as `Authorization: Bearer sa_…`. `stable-arena keys create` makes one.",
    auto_error=False,
)
Credentials = Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)]


class Admission(Generic[Admitted]):
    """A dependency that decides by the head of a request alone: its key, its session, its address, its limits.

    FastAPI reads a body before it calls the dependencies. So `app.guard.bodies` looks for the admissions of a route and
    asks them before it passes on the first byte. What they decided is kept for the request: a dependency that asks
    again gets the same, and the request is counted once.

    `decide`: returns what the endpoint gets, or raises why the request is refused; it must not read the body.
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


def is_decided(scope: Mapping[str, Any]) -> bool:
    """Whether an admission has decided about a request."""
    return bool(scope.get(_DECIDED))


def admissions_of(dependant: Dependant | None) -> tuple[Admission[Any], ...]:
    """Return the admissions among the dependencies of an endpoint, in the order in which FastAPI calls them."""
    return tuple(_walk(dependant)) if dependant is not None else ()


def _walk(dependant: Dependant) -> Iterator[Admission[Any]]:
    for dependency in dependant.dependencies:
        yield from _walk(dependency)
        if isinstance(dependency.call, Admission):
            yield dependency.call


def key_dependency(decide: Callable[[Request], Awaitable[Any]], *scopes: Scope) -> Any:
    """Return a dependency that decides by the key of a request; FastAPI describes these scopes."""
    return Security(_KeyAdmission(decide), scopes=list(scopes))


class _KeyAdmission(Admission[Any]):
    async def __call__(self, request: Request, _: Credentials = None) -> Any:
        return await super().__call__(request)


async def authorise(request: Request, *scopes: Scope, tokens: bool = False) -> Caller:
    """Return the holder of the request's key and require one of these scopes.

    Raises NotAuthenticatedError, ScopeMissingError or RateLimitedError.
    """
    caller = await _identify(request, tokens=tokens)
    if not any(map(caller.may, scopes)):
        raise ScopeMissingError(f"this needs a key with the scope {' or '.join(scopes)}")
    return caller


async def _identify(request: Request, *, tokens: bool) -> Caller:
    """Return the holder of the request's key and count the request towards the caller's limit."""
    state, secret = state_of(request.scope), bearer_secret(request)
    limits = state[RateLimits]
    if secret is None:
        limits.count_anonymous(request.scope)
        raise NotAuthenticatedError("send an API key: Authorization: Bearer sa_…")
    try:
        caller = await state[KnownCallers].identify(secret)
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
