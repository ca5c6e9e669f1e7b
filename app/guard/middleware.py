import re
import time
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import structlog
from prometheus_client import Counter, Histogram
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.database.ids import new_id
from app.errors import StableArenaError
from app.guard.back_off import WAITED
from app.guard.limits import IN_PROGRESS, RATE_LIMIT_HEADERS
from app.guard.paths import template_of, without_keys
from app.guard.process_metrics import DURATIONS, REQUESTS
from app.guard.refusals import problem_response

log = structlog.get_logger()

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_COUNT = "count_answer"
_FIRST_SERVER_ERROR = 500
_CLIENT_CLOSED_REQUEST = 499  # what proxies log if the client disconnected before the answer
_ID_FORM = re.compile(r"[A-Za-z0-9._-]{1,64}")

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
        request_id = given_id if _ID_FORM.fullmatch(given_id) else new_id().hex
        path = without_keys(scope["path"])
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
    requests, durations = _labelled(method, template_of(scope), int(status))
    requests.inc()
    durations.observe(seconds)
    count = getattr(getattr(scope.get("route"), "endpoint", None), _COUNT, None)
    if count is not None:
        count(scope, status)


@cache  # methods, routes and statuses are few; `labels` takes as long as the counting
def _labelled(method: str, route: str, status: int) -> tuple[Counter, Histogram]:
    return REQUESTS.labels(method, route, str(status)), DURATIONS.labels(method, route)
