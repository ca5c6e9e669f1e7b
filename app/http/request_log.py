import re
import time

import structlog
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.database.ids import new_id
from app.errors import StableArenaError
from app.http.paths import without_keys
from app.http.problems import problem_response
from app.http.process_metrics import count_request

log = structlog.get_logger()

_FIRST_SERVER_ERROR = 500
_CALLER_LEFT = 499  # what proxies write down where nobody was left to be answered
_ID_FORM = re.compile(r"[A-Za-z0-9._-]{1,64}")


class RequestLogMiddleware:
    """Gives every request an id, which the log, the answer and problems show, and answers unexpected failures.

    The caller's own X-Request-ID is kept if it is short and plain; else the request gets a new one. What no
    handler knew is logged here with its traceback and told to the caller as nothing but the id. The log never has the
    annotators' keys that stand in paths; answers do not either with `hide_keys`.
    """

    def __init__(self, app: ASGIApp, *, hide_keys: bool) -> None:
        self._app = app
        self._hide_keys = hide_keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        path = without_keys(scope["path"])
        state = scope.setdefault("state", {})
        state["request_id"], state["shown_path"] = request_id, path if self._hide_keys else scope["path"]
        status = 0
        began = time.perf_counter()

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode())]
            await send(message)

        # Not structlog's context manager, which takes several times as long, for every vote.
        tokens = structlog.contextvars.bind_contextvars(request_id=request_id)
        try:
            try:
                await self._app(scope, receive, send_with_id)
            except ClientDisconnect:
                log.debug("caller_left", method=scope["method"], path=path)
                count_request(scope, _CALLER_LEFT, time.perf_counter() - began)
                return
            except Exception:  # a bug: logged under its request id, answered with a bare 500
                log.exception("request_failed", method=scope["method"], path=path)
                if status:
                    raise  # half an answer is out: all that is left is to break the connection
                failure = StableArenaError("the service failed; its log has the reason under this request's id")
                await problem_response(scope, failure)(scope, receive, send_with_id)
            seconds = time.perf_counter() - began
            count_request(scope, status, seconds)
            _log_answer(scope, status, seconds)
        finally:
            structlog.contextvars.reset_contextvars(**tokens)


def _request_id(scope: Scope) -> str:
    given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
    return given if _ID_FORM.fullmatch(given) else new_id().hex


def _log_answer(scope: Scope, status: int, seconds: float) -> None:
    level = log.warning if status >= _FIRST_SERVER_ERROR else log.debug
    failure = scope["state"].get("failure")
    level(
        "request",
        method=scope["method"],
        path=without_keys(scope["path"]),
        status=status,
        milliseconds=round(seconds * 1000, 2),
        **({"detail": failure} if failure else {}),
    )
