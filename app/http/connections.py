"""Connections to a server process: how many an address may have, and how long the head of a request may take."""

import asyncio
import ipaddress
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.http.errors import RateLimitedError
from app.http.limits import network_of
from app.http.problems import MEDIA_TYPE

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_RETRY_SECONDS = 5


class ConnectionLimits:
    """Makes the connections of one server process: uvicorn calls it where it would call its own protocol's class.

    Proxies that uvicorn trusts (`FORWARDED_ALLOW_IPS`) may open any number. The addresses that they forward are limited
    where their requests are counted, in `RateLimits`.

    Parameters
    ----------
    per_address : connections that an address may have at once, of IPv6 the network of a subscriber; None for any number
    head_seconds : time from the first byte of a request, or from the opening of the connection, to the end of its head
    """

    def __init__(self, per_address: int | None, head_seconds: float) -> None:
        self._per_address = per_address
        self.head_seconds = head_seconds
        self._open: Counter[str] = Counter()
        self._proxies: tuple[_Network, ...] | None = None

    def __call__(self, *, config: Config, **given: Any) -> "LimitedConnection":
        """Return the protocol of a new connection."""
        if self._proxies is None:
            self._proxies = tuple(_networks(config.forwarded_allow_ips))
        return LimitedConnection(self, config=config, **given)

    def enter(self, host: str) -> str | None:
        """Count a connection from this address; return what to give back at its end, None if it is not limited.

        Raises
        ------
        RateLimitedError
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
    """uvicorn's connection, which counts towards the limit of its address and waits for a head only so long."""

    def __init__(self, limits: ConnectionLimits, **given: Any) -> None:
        super().__init__(**given)
        self._limits = limits
        self._network: str | None = None
        self._in_head = True
        self._waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """Take the connection, or refuse it if its address has too many."""
        super().connection_made(transport)
        try:
            self._network = self._limits.enter(self.client[0] if self.client else "")
        except RateLimitedError as error:
            transport.write(_refusal(error))
            transport.close()
        else:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place of the connection to the next one of its address."""
        super().connection_lost(exc)
        self._stop_waiting()
        if self._network is not None:
            self._limits.leave(self._network)
            self._network = None

    def data_received(self, data: bytes) -> None:
        """Pass the data on; if a head is not complete with it, wait for the rest."""
        super().data_received(data)
        if self._in_head and self._waiting is None and not self.transport.is_closing():
            self._wait()

    def on_message_begin(self) -> None:
        """Note that a head begins."""
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Note that the head is complete."""
        self._in_head = False
        self._stop_waiting()
        super().on_headers_complete()

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(self._limits.head_seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._waiting = None
        self.transport.close()


def _refusal(error: RateLimitedError) -> bytes:
    """Return the answer to a connection that is refused before its request is read."""
    problem = {
        "type": f"/problems/{error.code}",
        "title": error.title,
        "status": 429,
        "detail": error.detail,
        "instance": "",
        "request_id": "",
        "errors": [],
    }
    body = json.dumps(problem).encode()
    head = (
        f"HTTP/1.1 429 Too Many Requests\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\n"
        f"Retry-After: {error.retry_seconds}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
