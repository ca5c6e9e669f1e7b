"""Connections to a server process: how many an address may have, and how long and large a head may be."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest
import uvicorn

from app.guard.connections import HEAD_BYTES, HEADERS, TARGET_BYTES, WAITING_REQUESTS, ConnectionLimits

STRANGER, PROXY = "127.0.0.2", "127.0.0.1"
LARGE, PART = 32 * 1024**2, 1024**2
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def answer(scope: Any, _receive: Any, send: Any) -> None:
    body = b"ok" if scope["path"] == "/" else b"a" * LARGE
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    for start in range(0, len(body), PART):
        part = body[start : start + PART]
        await send({"type": "http.response.body", "body": part, "more_body": start + PART < len(body)})


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


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Of a server without a limit for addresses."""
    with serving(ConnectionLimits(None, 30, refusal_seconds=0)) as port:
        yield port


def connect(port: int, host: str = STRANGER) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=120, source_address=(host, 0))


def ask(connection: socket.socket, sent: bytes = GET) -> bytes:
    """Send a request and return the start of the answer, or nothing if the connection is closed.

    A server that closes before it has read everything resets the connection, with or after its answer.
    """
    with suppress(ConnectionError):
        connection.sendall(sent)
    try:
        return connection.recv(65536)
    except ConnectionError:
        return b""


def test_an_address_has_so_many_connections() -> None:
    with serving(ConnectionLimits(3, 30)) as port, ExitStack() as stack:
        held = [stack.enter_context(connect(port)) for _ in range(3)]
        assert [ask(each)[:12] for each in held] == [b"HTTP/1.1 200"] * 3
        with connect(port) as refused:
            head, _, body = refused.recv(65536).partition(b"\r\n\r\n")
            assert refused.recv(1) == b""
        assert head.startswith(b"HTTP/1.1 429 ")
        assert b"\r\nretry-after: " in head
        assert b"\r\nx-content-type-options: nosniff" in head
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


def lines(*headers: bytes, target: bytes = b"/", version: bytes = b"1.1") -> bytes:
    """A head with these header lines."""
    return b"\r\n".join([b"GET " + target + b" HTTP/" + version, *headers, b"", b""])


def numbered(number: int) -> bytes:
    """A head with so many headers."""
    return lines(b"Host: x", *(b"X-%d: a" % each for each in range(number - 1)))


def of_size(size: int) -> bytes:
    """A head whose target and headers have so many bytes."""
    host, name = b"Host: x", b"X: "
    return lines(host, name + b"a" * (size - len(b"/") - len(host) - len(name) - 2 * len(b"\r\n")))


def answer_to(port: int, sent: bytes) -> tuple[int, str]:
    """Return the status and the type of problem that is answered, and check that it closes the connection."""
    with connect(port) as connection:
        received = ask(connection, sent)
        head, _, body = received.partition(b"\r\n\r\n")
        status = int(head.split()[1])
        if status == 200:
            return status, ""
        assert b"\r\nconnection: close" in head
        assert ask(connection, b"") == b""
    problem = json.loads(body)
    assert problem["status"] == status
    return status, problem["type"].removeprefix("/problems/")


@pytest.mark.parametrize(
    ("largest", "too_large"),
    [
        (numbered(HEADERS), numbered(HEADERS + 1)),
        (of_size(HEAD_BYTES), of_size(HEAD_BYTES + 1)),
        (
            lines(b"Host: x", target=b"/".ljust(TARGET_BYTES, b"a")),
            lines(b"Host: x", target=b"/".ljust(TARGET_BYTES + 1, b"a")),
        ),
    ],
    ids=["headers", "bytes", "target"],
)
def test_a_head_has_a_size(port: int, largest: bytes, too_large: bytes) -> None:
    assert answer_to(port, largest)[0] == 200
    assert answer_to(port, too_large) == (431, "head-too-large")


@pytest.mark.parametrize(
    "begun", [b"GET /", lines(b"X: a")[:-4], lines(b"Host: x")[:-2]], ids=["target", "value", "name"]
)
def test_a_head_without_end_is_not_kept(port: int, begun: bytes) -> None:
    assert answer_to(port, begun + b"a" * (HEAD_BYTES + 16384)) == (431, "head-too-large")


def test_every_request_of_a_connection_has_a_head_of_its_own(port: int) -> None:
    with connect(port) as connection:
        for _ in range(3):
            connection.sendall(numbered(HEADERS))
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")


def test_trailers_count_with_the_headers(port: int) -> None:
    chunked = lines(b"Host: x", b"Transfer-Encoding: chunked") + b"1\r\na\r\n0\r\n"
    trailers = numbered(HEADERS).partition(b"\r\n")[2]
    with connect(port) as connection:
        connection.sendall(chunked + trailers + GET)
        received = b""
        while piece := connection.recv(65536):
            received += piece
    assert received.count(b"HTTP/1.1 200") <= 1


def test_requests_that_wait_have_a_number(port: int) -> None:
    received = b""
    with connect(port) as connection:
        connection.sendall(GET * WAITING_REQUESTS)
        while received.count(b"HTTP/1.1 200") < WAITING_REQUESTS:
            received += connection.recv(65536)
        assert ask(connection, GET * (WAITING_REQUESTS + 2)) == b""


def test_a_caller_may_leave_while_requests_wait(caplog: pytest.LogCaptureFixture) -> None:
    with serving(ConnectionLimits(None, 30)) as port, connect(port) as connection:
        connection.sendall(lines(b"Host: x", target=b"/large") * 3)
        assert connection.recv(12) == b"HTTP/1.1 200"
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


def test_answers_that_are_not_read_are_cut_off_in_their_order() -> None:
    with serving(ConnectionLimits(None, 30, unsent_bytes=PART)) as port, ExitStack() as stack:
        readers = []
        for _ in range(12):
            readers.append(stack.enter_context(connect(port)))
            readers[-1].sendall(lines(b"Host: x", target=b"/large"))
            assert readers[-1].recv(12) == b"HTTP/1.1 200"
        assert read_whole(readers[-1]) > LARGE, "the last one was cut off"
        assert read_whole(readers[0]) < LARGE, "the first one was not cut off"


def read_whole(connection: socket.socket) -> int:
    """Read an answer and return how many bytes there are: of its body, and of its head."""
    received = 0
    try:
        while received <= LARGE and (piece := connection.recv(PART)):
            received += len(piece)
    except ConnectionResetError:
        pass
    return received


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (lines(), 400),
        (lines(b"Host: x", b"Host: x"), 400),
        (lines(version=b"1.0"), 200),
        (lines(b"Host: x", b"host: y", version=b"1.0"), 400),
        (lines(b"Host: x", b"Transfer-Encoding: chunked"), 200),
        (lines(b"Host: x", b"Transfer-Encoding: Chunked"), 200),
        (lines(b"Host: x", b"Transfer-Encoding: gzip, chunked"), 400),
        (lines(b"Host: x", b"Transfer-Encoding: gzip", b"Transfer-Encoding: chunked"), 400),
        (lines(b"Host: x", b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"), 400),
        (lines(b"Host: x", b"Transfer-Encoding: identity"), 400),
        (lines(b"Host: x", b"Transfer-Encoding:"), 400),
        (lines(b"Host: x", b"Transfer-Encoding: chunked", version=b"1.0"), 400),
        (lines(b"Host: x", b"Transfer-Encoding: chunked", b"Content-Length: 3"), 400),
        (b"NONSENSE\r\n\r\n", 400),
    ],
)
def test_requests_that_are_no_valid_http(port: int, sent: bytes, status: int) -> None:
    assert answer_to(port, sent) == (status, "" if status == 200 else "malformed-request")
