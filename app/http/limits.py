import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import StableArenaError
from app.http.problems import BodyTooLargeError, BodyTooSlowError, MediaTypeError, problem_response

_BYTES_A_SECOND = 16 * 1024  # least speed of a body that takes longer than `seconds`


class _RefusedError(Exception):
    """Ends the reading of a body; it does not leave this module."""


class BodyLimit:
    """Refuses bodies that are too large, too slow or compressed before anything parses them.

    A body may take `seconds`, plus a second for every 16 KiB that have arrived. So a long upload has time, and a caller
    who sends a byte now and then does not. The limits also hold for bodies without Content-Length.
    `uploads` maps paths to a length limit of their own, for endpoints that do not hold the body in memory.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, seconds: float, uploads: Mapping[str, int] | None = None) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._seconds = seconds
        self._uploads = uploads or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        max_bytes = self._uploads.get(scope["path"], self._max_bytes)
        declared = headers.get(b"content-length", b"0")
        if not declared.isdigit() or int(declared[:20]) > max_bytes:
            await _refuse(_too_large(max_bytes), scope, receive, send)
        elif headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
            refusal = MediaTypeError("send the body without Content-Encoding: compressed bodies are not accepted")
            await _refuse(refusal, scope, receive, send)
        elif declared == b"0" and b"transfer-encoding" not in headers:
            await self._app(scope, receive, send)
        else:
            await _Watched(max_bytes, self._seconds, scope, receive, send).run(self._app)


class _Watched:
    """A request whose body is checked while it arrives."""

    def __init__(self, max_bytes: int, seconds: float, scope: Scope, receive: Receive, send: Send) -> None:
        self._max_bytes = max_bytes
        self._seconds = seconds
        self._scope = scope
        self._receive = receive
        self._send = send
        self._began = time.monotonic()
        self._received = 0
        self._complete = False
        self._answered = False
        self._refusal: StableArenaError | None = None

    async def run(self, app: ASGIApp) -> None:
        with suppress(_RefusedError):
            await app(self._scope, self._watch, self._answer)
        if self._refusal is not None and not self._answered:
            await _refuse(self._refusal, self._scope, self._receive, self._send)

    async def _watch(self) -> Message:
        if self._complete:  # only a disconnect can follow, and it may take as long as the answer
            return await self._receive()
        if self._refusal is not None:
            raise _RefusedError
        try:
            message = await self._next_part()
            self._received += len(message.get("body", b""))
            if self._received > self._max_bytes:
                raise _too_large(self._max_bytes)
        except StableArenaError as error:
            self._refusal = error
            raise _RefusedError from None
        self._complete = not message.get("more_body", False)
        return message

    async def _next_part(self) -> Message:
        allowed = self._seconds + self._received / _BYTES_A_SECOND
        left = self._began + allowed - time.monotonic()
        try:
            async with asyncio.timeout(left):
                return await self._receive()
        except TimeoutError:
            seconds = time.monotonic() - self._began
            raise BodyTooSlowError(f"only {self._received} bytes arrived in {seconds:.0f} seconds") from None

    async def _answer(self, message: Message) -> None:
        # The application saw half a body. Its answer is replaced by the reason.
        if self._refusal is not None and not self._answered:
            return
        self._answered = True
        await self._send(message)


def _too_large(max_bytes: int) -> BodyTooLargeError:
    return BodyTooLargeError(f"bodies may have at most {max_bytes} bytes")


async def _refuse(error: StableArenaError, scope: Scope, receive: Receive, send: Send) -> None:
    response = problem_response(scope, error)
    response.headers["Connection"] = "close"
    await response(scope, receive, send)
