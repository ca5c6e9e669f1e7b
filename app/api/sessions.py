"""Sessions of browsers over HTTP: the cookie, and what a request that changes something must show."""

import asyncio
import base64
import ipaddress
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any

from fastapi import Depends, Request, Response

from app.api.dependencies import database_turn
from app.auth.callers import Scope
from app.auth.sessions.csrf import is_token_of
from app.auth.sessions.schemas import Lifetimes, SignedIn
from app.auth.sessions.service import find_session
from app.database.engine import Database
from app.errors import ScopeMissingError
from app.guard.admission import Admission
from app.guard.errors import ForgedRequestError, InsecureConnectionError, SignInNeededError
from app.guard.limits import RateLimits
from app.guard.strangers import count_stranger
from app.settings import Settings
from app.state import state_of

CSRF_FIELD = "csrf_token"
CSRF_HEADER = "X-CSRF-Token"
_COOKIE = "stable-arena"
ATTEMPT = "-attempt"
"""Of the cookie with an attempt to sign in through a provider."""
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


def lifetimes_of(request: Request) -> Lifetimes:
    """Return how long sessions last, by the settings."""
    settings = state_of(request.scope)[Settings].sessions
    return Lifetimes(timedelta(minutes=settings.idle_minutes), timedelta(hours=settings.longest_hours))


def signed_in(scope: Scope | None = None) -> Any:
    """Return a dependency that yields the visitor of a page, who is signed in and has the scope, if one is named.

    A request that changes something must come from a page of this session: `check_form` sees to it. So an endpoint
    of the console is guarded by this one line: `visitor: Annotated[SignedIn, signed_in("review")]`. Raises
    SignInNeededError, ScopeMissingError, ForgedRequestError or RateLimitedError.
    """

    async def admitted(request: Request) -> SignedIn:
        return await _require_visitor(request, scope)

    async def visitor(request: Request, found: Annotated[SignedIn, Depends(Admission(admitted))]) -> SignedIn:
        if request.method not in _SAFE:  # last: it may read a form that holds a file
            await check_form(request, found)
        return found

    return Depends(visitor)


async def _page_reader(request: Request) -> SignedIn | None:
    if state_of(request.scope)[Settings].public_leaderboard:
        await count_stranger(request)
        return None
    return await _require_visitor(request, "read")


async def _require_visitor(request: Request, scope: Scope | None) -> SignedIn:
    found = await find_visitor(request)
    if found is None:
        raise SignInNeededError("sign in to see this page")
    if scope is not None and not found.caller.may(scope):
        raise ScopeMissingError(f"this page needs a key with the scope {scope}")
    return found


page_reader = Depends(Admission(_page_reader))
"""Admits the reader of a page that shows the leaderboard: everyone where it is public, else with the scope `read`."""


async def find_visitor(request: Request) -> SignedIn | None:
    """Return the session whose cookie the request shows, None without one, and count the request."""
    state, secret = state_of(request.scope), request.cookies.get(cookie_name(request))
    if secret is None:
        state[RateLimits].count_anonymous(request.scope)
        return None
    async with database_turn(request):
        found = await asyncio.to_thread(find_session, state[Database], secret, lifetimes_of(request))
    if found is None:
        state[RateLimits].count_anonymous(request.scope)
        return None
    state[RateLimits].count_caller(request.scope, found.caller)
    return replace(found, over_tls=_has_tls(request))


Visitor = Annotated[SignedIn | None, Depends(Admission(find_visitor))]
"""The visitor of a page that is for everyone: None if the browser is not signed in."""


async def _count_sign_in(request: Request) -> None:
    state_of(request.scope)[RateLimits].count_sign_in(request.scope)


count_sign_in = Depends(Admission(_count_sign_in))
"""Counts an attempt to sign in."""


async def check_form(request: Request, visitor: SignedIn) -> None:
    """Check that a request that changes something was sent by a page of the visitor's session.

    Raises ForgedRequestError.
    """
    check_origin(request)
    token = request.headers.get(CSRF_HEADER)
    if token is None and request.headers.get("content-type", "").partition(";")[0].strip().lower() in _FORMS:
        field = (await request.form()).get(CSRF_FIELD)
        token = field if isinstance(field, str) else None
    if token is None or not is_token_of(visitor.secret, token):
        raise ForgedRequestError("the form is not from this session: load the page again and repeat it")


def check_origin(request: Request) -> None:
    """Check that a page of this service sent the request, as every browser says with a form.

    Raises ForgedRequestError.
    """
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    own = f"{request.scope['scheme']}://{request.headers.get('host', '')}"
    if (origin, site) == (None, None) or origin not in (None, own) or site not in (None, "same-origin"):
        raise ForgedRequestError(f"the request does not come from a page of {own}")


def set_session_cookie(request: Request, response: Response, secret: str) -> None:
    """Give the browser the session's secret. Raises InsecureConnectionError."""
    require_private_connection(request)
    keep_cookie(request, response, "", secret, int(lifetimes_of(request).longest.total_seconds()))


def set_attempt_cookie(request: Request, response: Response, attempt: Mapping[str, str]) -> None:
    """Let the browser keep an attempt to sign in through a provider until it comes back, for ten minutes."""
    value = base64.urlsafe_b64encode(json.dumps(attempt).encode()).decode()
    keep_cookie(request, response, ATTEMPT, value, 600)


def read_attempt_cookie(request: Request) -> dict[str, str]:
    """Return the attempt that the browser keeps, empty if there is none or it is not one."""
    try:
        kept = json.loads(base64.urlsafe_b64decode(request.cookies.get(cookie_name(request, ATTEMPT), "")))
    except ValueError:
        return {}
    return {str(name): str(value) for name, value in kept.items()} if isinstance(kept, dict) else {}


def keep_cookie(request: Request, response: Response, purpose: str, value: str, seconds: int) -> None:
    """Let the browser keep a cookie, which no script reads and no form of another page sends."""
    name, secure = cookie_name(request, purpose), _has_tls(request)
    response.set_cookie(name, value, max_age=seconds, path="/", secure=secure, httponly=True, samesite="lax")


def drop_cookie(request: Request, response: Response, purpose: str = "") -> None:
    """Make the browser forget a cookie."""
    name, secure = cookie_name(request, purpose), _has_tls(request)
    response.delete_cookie(name, path="/", secure=secure, httponly=True, samesite="lax")


def cookie_name(request: Request, purpose: str = "") -> str:
    """Return the name of the session's cookie or, with a purpose, of another one.

    Over HTTPS it has the prefix `__Host-`: the browser takes it from this very host only. Without TLS that works in
    some browsers only, so the name is plain, with the port, because the ports of a machine share their cookies.
    """
    return (f"__Host-{_COOKIE}" if _has_tls(request) else f"{_COOKIE}-{_place(request)[1]}") + purpose


def require_private_connection(request: Request) -> None:
    """Refuse a connection on which others could read a key: one without TLS that leaves the machine.

    Raises InsecureConnectionError.
    """
    host, _ = _place(request)
    if not _has_tls(request) and not _is_loopback(host):
        raise InsecureConnectionError(
            f"{host or 'the service'} was reached without TLS, so others could read the key: use https:// or, on the "
            "machine itself, http://127.0.0.1. Behind a proxy that ends TLS, FORWARDED_ALLOW_IPS must name the proxy."
        )


def _has_tls(request: Request) -> bool:
    return bool(request.scope["scheme"] == "https")


def _place(request: Request) -> tuple[str, str]:
    """Return the host and the port that the browser asked for; callers may send any text as the Host."""
    named = _HOST.fullmatch(request.headers.get("host", ""))
    return (named[1], named[2] or "80") if named else ("", "80")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
