"""Connections to a server process: how many there may be, how large their heads, and how much they may not read.

uvicorn offers no limits on heads, hence a subclass of its protocol. Without it, callers who sent 15,000 headers a
request raised the 99th percentile of votes from 11 to 138 ms, and the memory of the process to 2 GB. uvicorn's h11 has
a limit on heads, but none on connections and no time for a head. It takes 584 µs of processor time for a vote in place
of 424. With 200 connections that send such heads, half of the votes took 12 s or more with it, and the memory grew by
up to 355 MiB, with these limits by 145.
"""

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from http import HTTPStatus
from typing import Any, NoReturn, cast

from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from app.errors import StableArenaError
from app.guard.errors import HeadTooLargeError, MalformedRequestError, RateLimitedError
from app.guard.joined_writes import JoinedWrites
from app.guard.limits import network_of
from app.guard.refusals import NOT_SNIFFED, problem_response

HEAD_BYTES = 64 * 1024
"""Of a request's head: its target and its headers, those after a body in chunks included."""
HEADERS = 100
TARGET_BYTES = 8 * 1024
WAITING_REQUESTS = 32
"""Requests that a connection may send before the one in progress is answered."""
HEAD_SECONDS = 10.0
"""Time that the line and the headers of a request may take."""
UNSENT_BYTES = 32 * 1024 * 1024
"""Of answers that callers do not read, of all connections together."""

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_RETRY_SECONDS = 5
_REFUSAL_SECONDS = 1.0  # until a head is answered that is refused: who sends such heads in a loop sends few
_PIECE = 16 * 1024  # bytes that are parsed between two looks at the limits; the server reads up to 256 KiB at once
_LINE_BYTES = 4  # of a header beside its name and value


class ConnectionLimits:
    """Makes the connections of one server process: uvicorn calls it where it would call its own protocol's class.

    Proxies that uvicorn trusts (`FORWARDED_ALLOW_IPS`) may open any number. The addresses that they forward are limited
    where their requests are counted, in `RateLimits`.

    Parameters
    ----------
    per_address : connections that an address may have at once, of IPv6 the network of a subscriber; None for any number
    head_seconds : time from the first byte of a request, or from the opening of the connection, to the end of its head
    refusal_seconds : time until the answer to a head that is refused
    unsent_bytes : most bytes of answers that wait for their readers; beyond, the one that waits longest is cut off
    """

    def __init__(
        self,
        per_address: int | None,
        head_seconds: float = HEAD_SECONDS,
        *,
        refusal_seconds: float = _REFUSAL_SECONDS,
        unsent_bytes: int = UNSENT_BYTES,
    ) -> None:
        self._per_address = per_address
        self.head_seconds = head_seconds
        self.refusal_seconds = refusal_seconds
        self._unsent_bytes = unsent_bytes
        self._unsent: dict[LimitedConnection, int] = {}
        self._open: Counter[str] = Counter()
        self._proxies: tuple[_Network, ...] | None = None

    def __call__(self, *, config: Config, **given: Any) -> "LimitedConnection":
        """Return the protocol of a new connection."""
        if self._proxies is None:
            self._proxies = tuple(_networks(config.forwarded_allow_ips))
        return LimitedConnection(self, config=config, **given)

    def enter(self, host: str) -> str | None:
        """Count a connection from this address; return what to give back at its end, None if it is not limited.

        Raises RateLimitedError.
        """
        if self._per_address is None or self._is_proxy(host):
            return None
        network = network_of(host)
        if self._open[network] >= self._per_address:
            raise RateLimitedError(f"one address may have {self._per_address} connections", _RETRY_SECONDS)
        self._open[network] += 1
        return network

    def leave(self, network: str) -> None:
        """Count the end of a connection that `enter` counted."""
        self._open[network] -= 1
        if not self._open[network]:
            del self._open[network]

    def hold(self, connection: "LimitedConnection", size: int) -> None:
        """Count what a connection cannot send yet; cut off those that wait longest if all of them have too much."""
        self._unsent[connection] = size
        while len(self._unsent) > 1 and sum(self._unsent.values()) > self._unsent_bytes:
            longest = next(iter(self._unsent))
            del self._unsent[longest]
            longest.transport.abort()

    def release(self, connection: "LimitedConnection") -> None:
        """Forget a connection that `hold` counted: it was sent, or closed."""
        self._unsent.pop(connection, None)

    def _is_proxy(self, host: str) -> bool:
        try:
            address = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            return True  # a Unix socket: only what runs on this machine can reach it
        return any(address in network for network in self._proxies or ())


def _networks(trusted: list[str] | str) -> Iterator[_Network]:
    """Return the networks that `FORWARDED_ALLOW_IPS` names; names of Unix sockets are left out, as they have none."""
    for named in trusted.split(",") if isinstance(trusted, str) else trusted:
        if named.strip() == "*":
            yield from (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0"))
            continue
        with suppress(ValueError):
            yield ipaddress.ip_network(named.strip())


class LimitedConnection(HttpToolsProtocol):
    """uvicorn's connection with limits: one for its address, and several for the head of a request.

    A head that is too large or is no valid HTTP is refused before the application learns of it, and the connection is
    closed. The answer is a problem, unless it would come in the middle of another one.
    """

    def __init__(self, limits: ConnectionLimits, **given: Any) -> None:
        super().__init__(**given)
        self._limits = limits
        self._network: str | None = None
        self._in_head = True
        self._head_bytes = 0
        self._unfinished_bytes = 0  # of a header that has begun
        self._failure: StableArenaError | None = None
        self._in_progress: RequestResponseCycle | None = None
        self._waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """Take the connection, or refuse it if its address has too many."""
        super().connection_made(cast("asyncio.Transport", JoinedWrites(transport, self.loop)))
        try:
            self._network = self._limits.enter(self.client[0] if self.client else "")
        except RateLimitedError as error:
            self._end(error)
        else:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place of the connection to the next one of its address."""
        if self._in_progress is not None:  # uvicorn says it to the last request alone, which may still wait
            self._in_progress.disconnected = True
            self._in_progress.message_event.set()
        super().connection_lost(exc)
        self._stop_waiting()
        self._limits.release(self)
        if self._network is not None:
            self._limits.leave(self._network)
            self._network = None

    def data_received(self, data: bytes) -> None:
        """Pass the data on, piece by piece; if a head is not complete with it, wait for the rest."""
        for start in range(0, len(data), _PIECE):
            if self._failure is not None or self.transport.is_closing():
                return
            piece = data[start : start + _PIECE]
            self._unfinished_bytes += len(piece)
            super().data_received(piece)
            if self._head_bytes + self._unfinished_bytes > HEAD_BYTES and self._failure is None:
                self._refuse(_too_many_bytes())
        if self._in_head and self._waiting is None and not self.transport.is_closing():
            self._wait()

    def pause_writing(self) -> None:
        """Count the answer, which its reader does not take as fast as it is made."""
        super().pause_writing()
        self._limits.hold(self, self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Note that the answer was sent."""
        super().resume_writing()
        self._limits.release(self)

    def on_message_begin(self) -> None:
        """Note that a head begins."""
        self._in_head = True
        self._head_bytes = self._unfinished_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Take a part of the target."""
        super().on_url(url)
        if len(self.url) > TARGET_BYTES:
            self._fail(HeadTooLargeError(f"the target of a request may have at most {TARGET_BYTES} bytes"))
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, of the head or after a body in chunks."""
        super().on_header(name, value)
        if len(self.headers) > HEADERS:
            self._fail(HeadTooLargeError(f"a request may have at most {HEADERS} headers"))
        self._count(len(name) + len(value) + _LINE_BYTES)

    def on_headers_complete(self) -> None:
        """Check the head, which is complete."""
        self._in_head = False
        self._unfinished_bytes = 0
        self._stop_waiting()
        if wrong := _wrong_with(self.headers, self.parser.get_http_version()):
            self._fail(MalformedRequestError(wrong))
        if len(self.pipeline) >= WAITING_REQUESTS:
            self._fail(RateLimitedError(f"{WAITING_REQUESTS} requests of this connection wait already", _RETRY_SECONDS))
        super().on_headers_complete()
        if self._in_progress is None:
            self._in_progress = self.cycle

    def on_response_complete(self) -> None:
        """Go on with the next request that waits."""
        self._in_progress = self.pipeline[-1][0] if self.pipeline else None
        super().on_response_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._unfinished_bytes = 0
        super().on_body(body)

    def send_400_response(self, msg: str) -> None:
        """Answer a request that cannot be read, or that a limit ended, and close the connection."""
        self._refuse(self._failure or MalformedRequestError(msg))

    def _count(self, size: int) -> None:
        self._head_bytes += size
        self._unfinished_bytes = 0
        if self._head_bytes > HEAD_BYTES:
            self._fail(_too_many_bytes())

    def _fail(self, failure: StableArenaError) -> NoReturn:
        """End the parsing; uvicorn calls `send_400_response` then."""
        self._failure = failure
        raise failure

    def _refuse(self, error: StableArenaError) -> None:
        """End the connection, in some time unless an answer is in progress."""
        self._failure = error
        self._stop_waiting()
        if self._in_progress is not None:
            self.transport.abort()
        else:
            self.transport.pause_reading()
            self._waiting = self.loop.call_later(self._limits.refusal_seconds, self._end, error)

    def _end(self, error: StableArenaError) -> None:
        self._waiting = None
        self.transport.write(_refusal(error))
        self.transport.close()

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(self._limits.head_seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._waiting = None
        self.transport.close()


def _too_many_bytes() -> HeadTooLargeError:
    return HeadTooLargeError(f"the head of a request may have at most {HEAD_BYTES} bytes")


def _wrong_with(headers: list[tuple[bytes, bytes]], version: str) -> str | None:
    """Return what RFC 9112 forbids about a request's host and the length of its body; the parser lets it through."""
    hosts = sum(name == b"host" for name, _ in headers)
    if hosts > 1 or (not hosts and version != "1.0"):
        return "a request needs one header Host"
    codings = [value.strip().lower() for name, value in headers if name == b"transfer-encoding"]
    if codings and (codings != [b"chunked"] or version == "1.0"):
        return "Transfer-Encoding may only be chunked, and only in HTTP/1.1"
    return None


def _refusal(error: StableArenaError) -> bytes:
    """Return the answer to a request that the application does not see."""
    answer = problem_response({"type": "http", "path": "", "headers": []}, error)
    headers = [*answer.raw_headers, NOT_SNIFFED, (b"connection", b"close")]
    head = f"HTTP/1.1 {answer.status_code} {HTTPStatus(answer.status_code).phrase}\r\n".encode()
    return head + b"".join(b"%b: %b\r\n" % header for header in headers) + b"\r\n" + bytes(answer.body)
