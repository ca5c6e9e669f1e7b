"""Bodies of requests: read once the sender is admitted, and only as long and as slowly as the route allows."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from fastapi.concurrency import run_in_threadpool
from python_multipart.multipart import parse_options_header
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import StableArenaError
from app.guard.admission import Admission, admissions_of
from app.guard.back_off import BackOff
from app.guard.compression import Compression
from app.guard.errors import BodyTooLargeError, BodyTooSlowError, MediaTypeError, TooManyBodiesError
from app.guard.limits import RateLimits
from app.guard.refusals import problem_response
from app.settings import Settings
from app.state import state_of

SMALL = 64 * 1024
"""Bytes that a body may have where its route does not say more."""

BODY_SECONDS = 30.0
"""Time that any body may take; a longer one has to arrive at `_BYTES_A_SECOND`."""

_BYTES_A_SECOND = 16 * 1024
_HELD_OF_A_STREAM = 2 * 1024 * 1024  # of a body that is passed on as it comes: a piece that waits and one that arrives
_FIRST_REFUSAL, _FIRST_SERVER_ERROR = 400, 500
_LIMIT, _STREAMED = "body_limit", "body_streamed"

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
Parsed = TypeVar("Parsed")


def takes_body(limit: Callable[[Settings], int], *, streamed: bool = False) -> Callable[[Endpoint], Endpoint]:
    """Return a decorator for an endpoint whose body may be longer than `SMALL`.

    `limit`: most bytes, by the settings.
    `streamed`: whether the endpoint passes the body on as it arrives, without holding it in memory.
    """

    def declare(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _LIMIT, limit)
        setattr(endpoint, _STREAMED, streamed)
        return endpoint

    return declare


async def parse_body(parse: Callable[[bytes], Parsed], body: bytes) -> Parsed:
    """Return what `parse` makes of a body, in a thread if the body is not small."""
    return parse(body) if len(body) <= SMALL else await run_in_threadpool(parse, body)


async def require_json(request: Request) -> None:
    """Refuse a body whose media type is not JSON. A request without a body passes. Raises MediaTypeError."""
    headers = request.headers
    if headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
        return
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise MediaTypeError("send the body as JSON: Content-Type: application/json")


class BodyGate:
    """Lets a body in once its sender is admitted, and only as much of it as its route and the process' memory allow.

    The first byte is passed on after the admissions of the route: until then the body stays where it is, and a sender
    who waits for `100 Continue` is not asked for it. A route without any counts the request towards the limit of its
    address. An answer that is sent before the body arrived closes the connection, and a refusal may come late: see
    `BackOff`.

    A body may take `body_seconds`, plus a second for every 16 KiB that have arrived. So a long upload has time, and a
    caller who sends a byte now and then does not. The limits also hold for bodies without Content-Length. All bodies
    together may have `bodies_bytes`, of which a quarter is for those of at most `SMALL` bytes; one alone is always
    taken.

    A request without a body goes on to `Compression`, which is for what is read.
    """

    def __init__(self, app: ASGIApp, settings: Settings, body_seconds: float = BODY_SECONDS) -> None:
        self._app = app
        self._without_body = Compression(app)
        self.settings = settings
        self.body_seconds = body_seconds
        self.held = 0
        self._admissions: dict[int, tuple[Admission[Any], ...]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        declared = headers.get(b"content-length", b"0")
        if declared == b"0" and b"transfer-encoding" not in headers:
            await self._without_body(scope, receive, send)
            return
        body = _Body(self, scope, receive, send, int(declared) if b"content-length" in headers else None)
        try:
            await body.run(self._app)
        finally:
            self.held -= body.held

    def admissions(self, scope: Scope) -> tuple[Admission[Any], ...]:
        """Return the admissions of the request's route."""
        route = scope.get("route")
        found = self._admissions.get(id(route))  # a route cannot be a key, and lives as long as the application
        if found is None:
            found = self._admissions[id(route)] = admissions_of(getattr(route, "dependant", None))
        return found

    def hold(self, size: int, *, more: int) -> None:
        """Take `more` bytes of memory for a body of `size` bytes. Raises TooManyBodiesError."""
        most = self.settings.server.bodies_bytes
        if self.held and self.held + more > (most if size <= SMALL else most - most // 4):
            raise TooManyBodiesError(f"bodies of {self.held:,} bytes are being received or worked on")
        self.held += more


class _Body:
    """The body of one request, which is checked before and while it arrives."""

    def __init__(self, gate: BodyGate, scope: Scope, receive: Receive, send: Send, declared: int | None) -> None:
        self.held = 0
        self._gate = gate
        self._scope = scope
        self._receive = receive
        self._send = send
        self._declared = declared
        self._began = 0.0
        self._received = 0
        self._limit = 0
        self._streamed = False
        self._admitted = False
        self._complete = False
        self._answered = False
        self._failure: Exception | None = None

    async def run(self, app: ASGIApp) -> None:
        with suppress(_RefusedError):
            await app(self._scope, self._next_message, self._answer)
        if self._failure is None or self._answered:
            return
        if not isinstance(self._failure, StableArenaError):
            raise self._failure
        self._answered = True
        await problem_response(self._scope, self._failure)(self._scope, self._receive, self._send_and_close)

    async def _next_message(self) -> Message:
        if self._complete:  # only a disconnect can follow, and it may take as long as the answer
            return await self._receive()
        if self._failure is not None:
            raise _RefusedError
        try:
            if not self._admitted:
                await self._admit()
            return await self._next_part()
        except Exception as failure:  # noqa: BLE001  kept: the framework would take it for a body that is no JSON
            self._failure = failure
            raise _RefusedError from None

    async def _admit(self) -> None:
        request, gate = Request(self._scope), self._gate
        admissions = gate.admissions(self._scope)
        for admission in admissions:
            await admission(request)
        if not admissions:
            state_of(self._scope)[RateLimits].count_anonymous(self._scope)
        _check_encoding(request.headers)
        endpoint = getattr(self._scope.get("route"), "endpoint", None)
        limit = getattr(endpoint, _LIMIT, None)
        self._streamed = getattr(endpoint, _STREAMED, False)
        self._limit = SMALL if limit is None else limit(gate.settings)
        if not self._streamed:
            self._limit = min(self._limit, gate.settings.server.max_body_bytes)
        if self._declared is not None:
            self._hold(self._declared)
        self._began = time.monotonic()
        self._admitted = True

    def _hold(self, size: int) -> None:
        """Take the memory of a body that has so many bytes, or had so many up to now."""
        if size > self._limit:
            raise BodyTooLargeError(f"bodies may have at most {self._limit} bytes")
        held = min(size, _HELD_OF_A_STREAM) if self._streamed else size
        if held > self.held:
            self._gate.hold(size, more=held - self.held)
            self.held = held

    async def _next_part(self) -> Message:
        allowed = self._gate.body_seconds + self._received / _BYTES_A_SECOND
        try:
            async with asyncio.timeout(self._began + allowed - time.monotonic()):
                message = await self._receive()
        except TimeoutError:
            seconds = time.monotonic() - self._began
            raise BodyTooSlowError(f"only {self._received} bytes arrived in {seconds:.0f} seconds") from None
        self._received += len(message.get("body", b""))
        if self._declared is None:
            self._hold(self._received)
        self._complete = not message.get("more_body", False)
        return message

    async def _answer(self, message: Message) -> None:
        # The application saw half a body. Its answer is replaced by the reason.
        if self._failure is not None and not self._answered:
            return
        self._answered = True
        await (self._send if self._complete else self._send_and_close)(message)

    async def _send_and_close(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if not self._admitted and _FIRST_REFUSAL <= message["status"] < _FIRST_SERVER_ERROR:
                await state_of(self._scope)[BackOff].wait(self._scope)
            message["headers"] = [*message["headers"], (b"connection", b"close")]
        await self._send(message)


class _RefusedError(Exception):
    """Ends the reading of a body; it does not leave this module."""


def _check_encoding(headers: Headers) -> None:
    """Check that a body is not compressed and that a form in parts is in UTF-8.

    Some of Python's other codecs take minutes for a megabyte. Raises MediaTypeError.
    """
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise MediaTypeError("send the body without Content-Encoding: compressed bodies are not accepted")
    kind, options = parse_options_header(headers.get("content-type", ""))
    if kind == b"multipart/form-data" and options.get(b"charset", b"utf-8").lower() not in (b"utf-8", b"utf8"):
        raise MediaTypeError("send the form in UTF-8")
