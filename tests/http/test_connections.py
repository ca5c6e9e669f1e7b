"""Connections to a server process: how many an address may have, and how long a head may take."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import uvicorn

from app.http.connections import ConnectionLimits

STRANGER, PROXY = "127.0.0.2", "127.0.0.1"
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def answer(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@contextmanager
def serving(limits: ConnectionLimits, trusted: str = PROXY) -> Iterator[int]:
    """Serve with these limits and yield the port."""
    config = uvicorn.Config(
        answer,
        port=0,
        lifespan="off",
        ws="none",
        log_config=None,
        http=limits,  # type: ignore[arg-type]  # as in app.cli.supervisor
        forwarded_allow_ips=trusted,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            thread.join(0.005)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


def connect(port: int, host: str = STRANGER) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30, source_address=(host, 0))


def ask(connection: socket.socket) -> bytes:
    """Send a request and return the start of the answer, or nothing if the connection is closed."""
    try:
        connection.sendall(GET)
        return connection.recv(65536)
    except OSError:
        return b""


def test_an_address_has_so_many_connections() -> None:
    with serving(ConnectionLimits(3, 30)) as port, ExitStack() as stack:
        held = [stack.enter_context(connect(port)) for _ in range(3)]
        assert [ask(each)[:12] for each in held] == [b"HTTP/1.1 200"] * 3
        with connect(port) as refused:
            head, _, body = refused.recv(65536).partition(b"\r\n\r\n")
            assert refused.recv(1) == b""
        assert head.startswith(b"HTTP/1.1 429 ")
        assert b"Retry-After: " in head
        assert json.loads(body)["type"] == "/problems/rate-limited"
        with connect(port, "127.0.0.3") as other:
            assert ask(other).startswith(b"HTTP/1.1 200")
        held[0].close()
        assert eventually(port), "the place of a closed connection was not given on"


def eventually(port: int) -> bool:
    """Whether a new connection is served, after some tries."""
    for _ in range(2000):
        with connect(port) as connection:
            if ask(connection).startswith(b"HTTP/1.1 200"):
                return True
    return False


@pytest.mark.parametrize("trusted", [PROXY, "127.0.0.0/31, unix:x", "*"])
def test_a_trusted_proxy_has_any_number(trusted: str) -> None:
    with serving(ConnectionLimits(1, 30), trusted) as port, ExitStack() as stack:
        held = [stack.enter_context(connect(port, PROXY)) for _ in range(5)]
        assert [ask(each)[:12] for each in held] == [b"HTTP/1.1 200"] * 5


def test_no_limit() -> None:
    with serving(ConnectionLimits(None, 30)) as port, ExitStack() as stack:
        held = [stack.enter_context(connect(port)) for _ in range(5)]
        assert [ask(each)[:12] for each in held] == [b"HTTP/1.1 200"] * 5


@pytest.mark.parametrize("begun", [b"", b"GET / HT", GET[:-2], GET + GET[:-2]], ids=["none", "line", "head", "second"])
def test_a_head_that_never_ends(begun: bytes) -> None:
    with serving(ConnectionLimits(None, 0.2)) as port, connect(port) as connection:
        connection.sendall(begun)
        received = b""
        while piece := connection.recv(65536):
            received += piece
        assert received.count(b"HTTP/1.1 200") == begun.count(GET)


def test_a_head_in_time() -> None:
    with serving(ConnectionLimits(None, 30)) as port, connect(port) as connection:
        for piece in (GET[:5], GET[5:-1], GET[-1:]):
            connection.sendall(piece)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        assert ask(connection).startswith(b"HTTP/1.1 200")
