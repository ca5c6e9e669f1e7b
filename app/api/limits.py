from contextlib import suppress

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.problems import BodyTooLargeError, problem_response


class _BodyTooLargeError(Exception):
    """Ends the reading of a body; never leaves this module."""


class BodyLimit:
    """Refuses bodies over `max_bytes` before anything parses them, whether they say their length or not."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if not declared.isdigit() or int(declared[:20]) > self._max_bytes:
            await self._refuse(scope, receive, send)
            return
        await self._count(scope, receive, send)

    async def _count(self, scope: Scope, receive: Receive, send: Send) -> None:
        received = 0
        answered = False

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._max_bytes:
                raise _BodyTooLargeError
            return message

        async def guarded(message: Message) -> None:
            nonlocal answered
            # Whatever the application makes of the broken-off body, the caller is told why it was.
            if received > self._max_bytes and not answered:
                return
            answered = True
            await send(message)

        with suppress(_BodyTooLargeError):
            await self._app(scope, counted, guarded)
        if received > self._max_bytes and not answered:
            await self._refuse(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = problem_response(scope, BodyTooLargeError(f"bodies may have at most {self._max_bytes} bytes"))
        response.headers["Connection"] = "close"
        await response(scope, receive, send)
