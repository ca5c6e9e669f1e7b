"""What every request passes first and its answer last: an id, the log, the counts, and what browsers may read."""

import re
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

import structlog
from prometheus_client import Counter, Histogram
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uuid_utils import uuid7

from app.database.ids import as_id
from app.errors import StableArenaError
from app.guard.back_off import WAITED
from app.guard.errors import RateLimitedError
from app.guard.limits import IN_PROGRESS, RATE_LIMIT_HEADERS
from app.guard.process_metrics import DURATIONS, REQUESTS
from app.guard.refusals import NOT_SNIFFED, PREFIX, problem_response
from app.guard.strangers import count_file

log = structlog.get_logger()

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_COUNT = "count_answer"
_FIRST_SERVER_ERROR = 500
_CLIENT_CLOSED_REQUEST = 499  # what proxies log if the client disconnected before the answer
_ID_FORM = re.compile(r"[A-Za-z0-9._-]{1,64}")
_BEFORE_KEYS = "/annotators/"
_HIDDEN = "-"  # stands for an annotator's key in paths that are logged
_PUBLIC = re.compile(rf"{PREFIX}/(leaderboard|matchups|snapshots|governance|openapi\.json)(/.*)?")
_READING = frozenset({"GET", "HEAD"})
_EXPOSED = ["ETag", "Idempotency-Replayed", "Location", "RateLimit", "RateLimit-Policy", "Retry-After", "X-Request-ID"]
_CORS_SECONDS = 600  # that a browser remembers the answer

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


class RequestLogMiddleware:
    """Gives every request an id, counts and logs it, and answers an unexpected exception with a bare 500.

    The caller's own X-Request-ID is kept if it is short and plain. The id is in the log, in the answer and in problems.
    An unexpected exception is logged with its traceback; the answer says nothing but the id. The log never has the
    annotators' keys that stand in paths, and with `hide_keys` the answers do not either.

    The response gets the headers of the rate limit. A HEAD request is answered as GET (RFC 9110, 9.3.2): FastAPI's
    routes know no HEAD, and the server leaves the body out.
    """

    def __init__(self, app: ASGIApp, *, hide_keys: bool) -> None:
        self._app = app
        self._hide_keys = hide_keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        method, status = scope["method"], 0
        given_id = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
        request_id = given_id if _ID_FORM.fullmatch(given_id) else uuid7().hex
        path = _without_keys(scope["path"])
        state = scope.setdefault("state", {})
        state["request_id"], state["shown_path"] = request_id, path if self._hide_keys else scope["path"]

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                scope["method"] = method  # the server looks at it before it sends a body
                status = message["status"]
                limits = state.get(RATE_LIMIT_HEADERS, ())
                message["headers"] = [*message["headers"], *limits, (b"x-request-id", request_id.encode())]
            await send(message)

        if method == "HEAD":
            scope["method"] = "GET"
        # structlog's context manager takes several times as long, for every vote.
        tokens = structlog.contextvars.bind_contextvars(request_id=request_id)
        try:
            try:
                await self._app(scope, receive, send_with_headers)
            except ClientDisconnect:
                status = _CLIENT_CLOSED_REQUEST
            except Exception:
                log.exception("request_failed", method=method, path=path)
                if status:
                    raise  # half an answer was sent: only breaking the connection says that it failed
                failure = StableArenaError("the service failed; its log has the reason with this request id")
                await problem_response(scope, failure)(scope, receive, send_with_headers)
            scope["method"] = method
            seconds = time.perf_counter() - began - state.get(WAITED, 0.0)
            count_request(scope, status, seconds)
            level = log.warning if status >= _FIRST_SERVER_ERROR else log.debug
            failed = {"detail": state["failure"]} if "failure" in state else {}
            level("request", method=method, path=path, status=status, milliseconds=round(seconds * 1000, 2), **failed)
        finally:
            if IN_PROGRESS in state:
                state[IN_PROGRESS]()
            structlog.contextvars.reset_contextvars(**tokens)


def when_answered(count: Callable[[Scope, int], None]) -> Callable[[Endpoint], Endpoint]:
    """Return a decorator for an endpoint whose answers are counted by their scope and status, early refusals too."""

    def declare(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _COUNT, count)
        return endpoint

    return declare


def count_request(scope: Scope, status: int, seconds: float) -> None:
    """Count a request that was answered."""
    method: str = scope["method"]
    if method not in _METHODS:
        method = "other"  # callers may invent methods
    requests, durations = _labelled(method, _template_of(scope), int(status))
    requests.inc()
    durations.observe(seconds)
    count = getattr(getattr(scope.get("route"), "endpoint", None), _COUNT, None)
    if count is not None:
        count(scope, status)


@cache  # methods, routes and statuses are few; `labels` takes as long as the counting
def _labelled(method: str, route: str, status: int) -> tuple[Counter, Histogram]:
    return REQUESTS.labels(method, route, str(status)), DURATIONS.labels(method, route)


def _template_of(scope: Scope) -> str:
    """Return the path of the request's route, with its parameters' names; "none" if no route was found."""
    route: Any = scope.get("route")
    if route is None:
        return "none"
    path: str = route.path_format  # as the API description has it
    # A route of an included router has its path without the router's prefix.
    return path if path.startswith(PREFIX) or not scope["path"].startswith(PREFIX) else PREFIX + path


def _without_keys(path: str) -> str:
    """Return a request's path with a dash in place of an annotator's key; ids stay.

    For example, `/annotators/ann@example.org/history` becomes `/annotators/-/history`.
    """
    before, found, rest = path.partition(_BEFORE_KEYS)
    if not found:
        return path
    reference, slash, tail = rest.rpartition("/")
    if not slash or not tail.isalpha() or as_id(rest):
        # The whole rest is the key, with its slashes, unless a plain word such as /history follows it.
        reference, slash, tail = rest, "", ""
    return f"{before}{found}{reference if as_id(reference) else _HIDDEN}{slash}{tail}"


class CrossOrigin:
    """What browsers may do with answers: pages of every origin may read what is public, those of named ones call all.

    Credentials stay off: callers show keys and tokens, not cookies. An answer's content is what its type says.
    """

    def __init__(self, app: ASGIApp, *, origins: Sequence[str], public: bool) -> None:
        self._public = public
        self._readers = CORSMiddleware(
            app,
            allow_origins=["*"],
            allow_methods=["GET"],
            allow_headers=["Authorization", "If-None-Match", "Last-Event-ID", "X-Request-ID"],
            expose_headers=_EXPOSED,
            max_age=_CORS_SECONDS,
        )
        self._callers: ASGIApp = app
        if origins:
            self._callers = CORSMiddleware(
                app,
                allow_origins=origins,
                allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
                allow_headers=[
                    "Authorization",
                    "Content-Type",
                    "Idempotency-Key",
                    "If-Match",
                    "If-None-Match",
                    "X-Request-ID",
                ],
                expose_headers=_EXPOSED,
                max_age=_CORS_SECONDS,
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._callers(scope, receive, send)
            return

        async def send_unsniffed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], NOT_SNIFFED]
            await send(message)

        if scope["method"] == "OPTIONS" and not await self._is_within_limit(scope, receive, send_unsniffed):
            return
        reads = self._public and _PUBLIC.fullmatch(scope["path"]) and _intent(scope) in _READING
        await (self._readers if reads else self._callers)(scope, receive, send_unsniffed)

    async def _is_within_limit(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Count a browser's question before a request: many people may ask from one address, as they load files."""
        state = scope.setdefault("state", {})
        try:
            await count_file(Request(scope))
        except RateLimitedError as refused:
            await problem_response(scope, refused)(scope, receive, send)
            return False
        finally:
            state.pop(IN_PROGRESS, lambda: None)()
        return True


def _intent(scope: Scope) -> str:
    """Return the request's method; of a browser's question before a request, the method that it asks for."""
    method: str = scope["method"]
    if method != "OPTIONS":
        return method
    return Headers(scope=scope).get("access-control-request-method", "")
