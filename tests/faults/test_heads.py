"""Heads without end and answers unread, of strangers: votes are recorded, and the process that serves stays small."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import chain, repeat

import httpx
import pytest

from app.auth.keys import create_key
from app.database.engine import Database
from app.guard.connections import WAITING_REQUESTS
from tests.fixtures.environment import Configure
from tests.fixtures.killed_service import Service

VOTES, ATTACKS, READERS = 100, 3, 200
MOST_MEMORY = 100 * 1024**2
LINE = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
DESCRIPTION = b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
CHUNKED = b"POST /api/v1/votes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
CHUNKED += b"Transfer-Encoding: chunked\r\n\r\n"
CUT_OFF = {b"", b"HTTP/1.1 431", b"HTTP/1.1 401"}
"""How the answer to a stranger may begin; the last is for a request that has a head and no key."""


def headers(number: int) -> Iterator[bytes]:
    yield LINE + b"".join(b"X-%d: a\r\n" % each for each in range(number)) + b"\r\n"


def endless(first: bytes, piece: bytes, megabytes: int = 72) -> Iterator[bytes]:
    more = piece * (65536 // len(piece))
    return chain([first], repeat(more, megabytes * 1024**2 // len(more)))


STRANGERS = {
    "15,000 headers": (2, lambda: headers(15_000)),
    "200,000 headers": (4, lambda: headers(200_000)),
    "lines": (2, lambda: endless(LINE, b"X: a\r\n")),
    "a target": (4, lambda: endless(b"GET /", b"a")),
    "a name": (4, lambda: endless(LINE, b"a")),
    "a value": (4, lambda: endless(LINE + b"X: ", b"a")),
    "trailers": (4, lambda: endless(CHUNKED + b"0\r\n", b"X: a\r\n")),
    "a trailer": (4, lambda: endless(CHUNKED + b"0\r\nX: ", b"a")),
    "requests": (4, lambda: endless(b"", LINE + b"\r\n", 8)),
}
"""Connections at once, and what is sent on each."""


def attack(port: int, pieces: Iterator[bytes]) -> bytes:
    """Send the pieces until the other side has enough, and return how its answer begins."""
    with socket.create_connection(("127.0.0.1", port), timeout=60, source_address=("127.0.0.2", 0)) as stranger:
        try:
            for piece in pieces:
                stranger.sendall(piece)
            stranger.shutdown(socket.SHUT_WR)
        except OSError:  # it was cut off
            pass
        try:
            return stranger.recv(65536)[:12]
        except OSError:
            return b""


@pytest.fixture
def service(database_url: str, configure: Configure) -> Iterator[Service]:
    configure(SERVER__ANONYMOUS_REQUESTS_PER_MINUTE="none")  # else most answers are short refusals
    service = Service(database_url)
    service.start()
    yield service
    service.kill()


@pytest.fixture
def client(database: Database, service: Service) -> Iterator[httpx.Client]:
    """A caller with a key, who has voted before."""
    with database.begin() as conn:
        key = {"Authorization": f"Bearer {create_key(conn, 'tests', ['ingest'])[1]}"}
    with httpx.Client(base_url=f"http://127.0.0.1:{service.port}/api/v1", headers=key, timeout=120) as client:
        assert vote(client) == {201}
        yield client


def vote(client: httpx.Client) -> set[int]:
    """Vote, and return how that was answered."""
    body = {"model_a": "a", "model_b": "b", "winner": "tie", "annotator": "k"}
    return {client.post("/votes", json=body).status_code for _ in range(VOTES)}


@pytest.mark.campaign
def test_heads_without_end(service: Service, client: httpx.Client) -> None:
    grown = {}
    for name, (connections, pieces) in STRANGERS.items():
        with service.peak_memory() as memory, ThreadPoolExecutor(connections) as pool:
            sent = [pool.submit(attack, service.port, pieces()) for _ in range(ATTACKS * connections)]
            assert vote(client) == {201}, name
            assert {each.result() for each in sent} <= CUT_OFF, name
        grown[name] = memory.grown
        print(f"{name}: memory +{memory.grown / 1024**2:.0f} MiB")
    assert max(grown.values()) <= MOST_MEMORY, grown


@pytest.mark.campaign
def test_answers_that_are_not_read(service: Service, client: httpx.Client) -> None:
    with service.peak_memory() as memory, ExitStack() as stack:
        for _ in range(READERS):
            reader = stack.enter_context(socket.socket())
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.bind(("127.0.0.2", 0))
            reader.connect(("127.0.0.1", service.port))
            reader.sendall(DESCRIPTION * WAITING_REQUESTS)
        assert vote(client) == {201}
    print(f"readers: memory +{memory.grown / 1024**2:.0f} MiB")
    assert memory.grown <= MOST_MEMORY
