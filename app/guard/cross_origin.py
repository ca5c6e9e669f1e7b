"""Which pages of other origins a browser lets call the service."""

import re
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from app.guard.paths import PREFIX

_PUBLIC = re.compile(rf"{PREFIX}/(leaderboard|matchups|snapshots|openapi\.json)(/.*)?")
_READING = frozenset({"GET", "HEAD"})
_EXPOSED = ["ETag", "Idempotency-Replayed", "Location", "RateLimit", "RateLimit-Policy", "Retry-After", "X-Request-ID"]
_SECONDS = 600  # that a browser remembers the answer


class CrossOrigin:
    """Lets pages of every origin read what is public, and pages of the named origins call everything.

    Credentials stay off: callers show keys and tokens, not cookies.
    """

    def __init__(self, app: ASGIApp, *, origins: Sequence[str], public: bool) -> None:
        self._public = public
        self._readers = CORSMiddleware(
            app,
            allow_origins=["*"],
            allow_methods=["GET"],
            allow_headers=["Authorization", "If-None-Match", "Last-Event-ID", "X-Request-ID"],
            expose_headers=_EXPOSED,
            max_age=_SECONDS,
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
                max_age=_SECONDS,
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        reads = (
            self._public and scope["type"] == "http" and _PUBLIC.fullmatch(scope["path"]) and _intent(scope) in _READING
        )
        await (self._readers if reads else self._callers)(scope, receive, send)


def _intent(scope: Scope) -> str:
    """Return the request's method; of a browser's question before a request, the method that it asks for."""
    method: str = scope["method"]
    if method != "OPTIONS":
        return method
    return Headers(scope=scope).get("access-control-request-method", "")
