"""Limits on callers: the length and speed of a body, and requests a minute."""

import asyncio
import ipaddress
import math
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from cachetools import LRUCache
from python_multipart.multipart import parse_options_header
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.auth.callers import Caller
from app.errors import StableArenaError
from app.http.errors import BodyTooLargeError, BodyTooSlowError, MediaTypeError, RateLimitedError
from app.http.problems import problem_response

_BYTES_A_SECOND = 16 * 1024  # least speed of a body that takes longer than `seconds`

_MINUTE = 60.0
_NETWORK_BITS = 64  # of an IPv6 address that belong to one subscriber
RATE_LIMIT_HEADERS = "rate_limit_headers"
"""In a request's state: the response headers that say how much of the limit is left, as in the IETF's draft."""


class _RefusedError(Exception):
    """Ends the reading of a body; it does not leave this module."""


class BodyLimit:
    """Refuses bodies that are too large, too slow, compressed or in an odd charset before anything parses them.

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
        elif not _is_utf8(Headers(scope=scope).get("content-type", "")):
            await _refuse(MediaTypeError("send the form in UTF-8"), scope, receive, send)
        elif declared == b"0" and b"transfer-encoding" not in headers:
            await self._app(scope, receive, send)
        else:
            await _Watched(max_bytes, self._seconds, scope, receive, send).run(self._app)


def _is_utf8(media_type: str) -> bool:
    """Whether a form, if it is one in parts, is in UTF-8. Some of Python's other codecs take minutes for a megabyte."""
    kind, options = parse_options_header(media_type)
    return kind != b"multipart/form-data" or options.get(b"charset", b"utf-8").lower() in (b"utf-8", b"utf8")


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


@dataclass(slots=True)
class _Bucket:
    """A token bucket: `left` requests may come at once, and `per_minute` are added in a minute."""

    per_minute: int
    left: float
    at: float


class RateLimits:
    """Counts the requests of each key, battle token and address without either, in this process's memory.

    Every process counts for itself: with four processes, a caller may make up to four times as many requests. The
    requests of a minute may come at once. If there are more than `size` callers, the one that was silent longest is
    forgotten.
    """

    def __init__(
        self,
        *,
        per_key: int | None,
        per_address: int | None,
        sign_ins: int | None = None,
        per_token: int | None = None,
        size: int = 100_000,
    ) -> None:
        self._per_key = per_key
        self._sign_ins = sign_ins
        self._per_address = per_address
        self._per_token = per_token
        self._buckets: LRUCache[Any, _Bucket] = LRUCache(size)

    def count_caller(self, scope: Scope, caller: Caller) -> None:
        """Count a request of a key, or of one of its tokens, towards the key's own limit or the service's.

        Raises
        ------
        RateLimitedError
        """
        per_minute = caller.requests_per_minute or self._per_key
        if per_minute is not None:
            self._take(scope, "key", caller.key_id or caller.name, per_minute)

    def count_anonymous(self, scope: Scope) -> None:
        """Count a request without a valid key towards the limit of the address.

        Raises
        ------
        RateLimitedError
        """
        if self._per_address is not None:
            self._take(scope, "address", _network(scope), self._per_address)

    def count_sign_in(self, scope: Scope) -> None:
        """Count an attempt to sign in towards the limit of the address.

        Raises
        ------
        RateLimitedError
        """
        if self._sign_ins is not None:
            self._take(scope, "address", ("sign-in", _network(scope)), self._sign_ins)

    def count_battle_token(self, scope: Scope, battle_id: UUID) -> None:
        """Count a request that shows a genuine token of a battle and no key. The address' limit does not apply.

        Raises
        ------
        RateLimitedError
        """
        if self._per_token is not None:
            self._take(scope, "token", battle_id, self._per_token)

    def _take(self, scope: Scope, policy: str, who: Any, per_minute: int) -> None:
        now = time.monotonic()
        bucket = self._buckets.get(who)
        if bucket is None or bucket.per_minute != per_minute:
            bucket = self._buckets[who] = _Bucket(per_minute, per_minute, now)
        rate = per_minute / _MINUTE
        bucket.left = min(per_minute, bucket.left + (now - bucket.at) * rate)
        bucket.at = now
        refused = bucket.left < 1
        if not refused:
            bucket.left -= 1
        until_full = math.ceil((per_minute - bucket.left) / rate)
        scope["state"][RATE_LIMIT_HEADERS] = (
            (b"ratelimit-policy", b'"%b";q=%d;w=60' % (policy.encode(), per_minute)),
            (b"ratelimit", b'"%b";r=%d;t=%d' % (policy.encode(), bucket.left, until_full)),
        )
        if refused:
            wait = math.ceil((1 - bucket.left) / rate)
            raise RateLimitedError(f"one {policy} may make {per_minute} requests a minute", wait)


def _network(scope: Scope) -> str:
    """Return the caller's address, of IPv6 the part that a provider assigns. uvicorn has looked behind proxies."""
    host: str = scope["client"][0] if scope.get("client") else ""
    if ":" not in host:
        return host
    return str(ipaddress.IPv6Network((host.partition("%")[0], _NETWORK_BITS), strict=False))
