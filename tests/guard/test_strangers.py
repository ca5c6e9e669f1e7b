"""Bodies of senders who are not admitted: none is waited for, none is kept."""

import asyncio
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from httpx import Client

from app.guard.admission import admissions_of
from app.guard.bodies import SMALL, parse_body
from app.guard.errors import RateLimitedError
from app.guard.limits import RateLimits
from app.main import create_app
from app.settings import ServerSettings, Settings
from tests.fixtures.application import Assemble

Ask = Callable[..., Any]

LARGE = 16 * 1024 * 1024
VOTE = {"model_a": "a", "model_b": "b", "winner": "tie", "annotator": "k"}
WITH_BODIES = ("POST", "PUT", "PATCH", "DELETE")
API = "/api/v1"


def routes(app: FastAPI) -> list[tuple[str, Any]]:
    """Every method and route whose requests may have a body."""
    contexts = list(iter_route_contexts(app.routes))
    return [(method, route) for route in contexts for method in sorted(route.methods or ()) if method in WITH_BODIES]


class Raw:
    """A connection on which requests are sent piece by piece."""

    def __init__(self, url: str) -> None:
        where = urlsplit(url)
        self.socket = socket.create_connection((where.hostname or "", where.port or 80), timeout=120)
        self._received = b""

    def send(self, method: str, path: str, *lines: str, body: bytes = b"") -> None:
        """Send a request's head with these header lines, and the body."""
        head = "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *lines, "", ""])
        self.socket.sendall(head.encode() + body)

    def head(self) -> tuple[int, dict[str, str]]:
        """Wait for the head of the next answer and return its status and headers; the body is read past."""
        while b"\r\n\r\n" not in self._received:
            piece = self.socket.recv(65536)
            assert piece, f"the connection was closed after {self._received!r}"
            self._received += piece
        head, _, rest = self._received.partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        length = int(headers.get("content-length", 0))
        while len(rest) < length:
            rest += self.socket.recv(65536)
        self._received = rest[length:]
        return int(status.split()[1]), headers

    def is_closed(self) -> bool:
        """Wait for more, and return whether the other side closed instead."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True


@contextmanager
def connected(url: Any) -> Iterator[Raw]:
    raw = Raw(str(url))
    with raw.socket:
        yield raw


def test_every_route_that_takes_a_body_says_who_may_send_it(usual_app: FastAPI) -> None:
    open_to_all = [
        (method, route.path) for method, route in routes(usual_app) if not admissions_of(route.original_route.dependant)
    ]
    assert open_to_all == []


def test_every_route_answers_a_stranger_before_the_body(usual_app: FastAPI, client: Client) -> None:
    checked, wrong = 0, []
    for method, route in routes(usual_app):
        path = re.sub(r"{[\w:]+}", str(uuid4()), route.path)
        kind = "application/x-www-form-urlencoded" if path.startswith("/console") else "application/json"
        with connected(client.base_url) as raw:
            # From an address each: the answers to many refused bodies of one address come late.
            lines = (f"Content-Type: {kind}", f"Content-Length: {LARGE}", f"Origin: {client.base_url}")
            raw.send(method, path, *lines, f"X-Forwarded-For: 192.0.2.{checked}")
            status, headers = raw.head()
        checked += 1
        # Whoever comes may vote: the origin with its slash is what is wrong there.
        allowed = {413} if path == "/console/sign-in" else {403} if path.startswith("/vote") else {401}
        if status not in allowed or headers.get("connection") != "close":
            wrong.append((method, path, status, headers))
    assert not wrong
    assert checked >= 50


@pytest.mark.parametrize(
    ("shown", "path", "length", "status"),
    [
        ("ingest", "/refits", LARGE, 403),
        ("admin", "/refits", LARGE, 413),
        ("admin", "/refits", SMALL + 1, 413),
        ("read", "/votes/batch", LARGE, 403),
        ("ingest", "/votes/batch", LARGE + 1, 413),
        ("ingest", "/votes", LARGE, 413),
        (None, "/votes", 4096 + 1, 401),
        ("read", "/imports", 1024**3, 403),
        ("admin", "/nothing", LARGE, 404),
    ],
)
def test_what_is_refused_is_refused_before_it_arrives(
    client: Client, keys: dict[str, str], shown: str | None, path: str, length: int, status: int
) -> None:
    key = [f"Authorization: Bearer {keys[shown]}"] if shown else []
    with connected(client.base_url) as raw:
        raw.send("POST", API + path, *key, "Content-Type: application/json", f"Content-Length: {length}")
        answered, headers = raw.head()
        assert (answered, headers["connection"]) == (status, "close")
        assert raw.is_closed()


def test_only_an_admitted_sender_is_asked_to_continue(client: Client, keys: dict[str, str]) -> None:
    body = json.dumps({"votes": [VOTE]}).encode()
    asked = ("Content-Type: application/json", f"Content-Length: {len(body)}", "Expect: 100-continue")
    with connected(client.base_url) as raw:
        raw.send("POST", f"{API}/votes/batch", *asked)
        assert raw.head()[0] == 401
    with connected(client.base_url) as raw:
        raw.send("POST", f"{API}/votes/batch", *asked, f"Authorization: Bearer {keys['ingest']}")
        assert raw.head()[0] == 100
        raw.socket.sendall(body)
        assert raw.head()[0] == 200


def test_a_connection_goes_on_after_a_body_that_was_read(client: Client, keys: dict[str, str]) -> None:
    body = json.dumps(VOTE).encode()
    lines = ("Content-Type: application/json", f"Authorization: Bearer {keys['ingest']}")
    with connected(client.base_url) as raw:
        for sent in (body, body[:-1], body):  # the second is no JSON
            raw.send("POST", f"{API}/votes", *lines, f"Content-Length: {len(sent)}", body=sent)
        assert [raw.head()[0] for _ in range(3)] == [201, 400, 201]


def test_a_request_behind_a_body_that_was_not_read_is_not_answered(client: Client) -> None:
    with connected(client.base_url) as raw:
        raw.send("POST", f"{API}/refits", "Content-Length: 2", body=b"{}")
        raw.send("GET", "/healthz")
        status, headers = raw.head()
        assert (status, headers["connection"]) == (401, "close")
        assert raw.is_closed()


@pytest.mark.usefixtures("limits_clock")
def test_a_request_with_a_body_counts_once(settings: Settings, serving: Ask, keys: dict[str, str]) -> None:
    limited = settings.model_copy(update={"server": ServerSettings(requests_per_minute=3)})
    headers = {"Authorization": f"Bearer {keys['admin']}"}
    with serving(create_app(limited)) as url, Client(base_url=f"{url}{API}", headers=headers, timeout=120) as client:
        answers = [client.post("/refits", json={}) for _ in range(4)]
    assert [answer.headers["ratelimit"][:9] for answer in answers[:3]] == ['"key";r=2', '"key";r=1', '"key";r=0']
    assert (answers[3].status_code, answers[3].headers["connection"]) == (429, "close")


@pytest.fixture
def small_memory(settings: Settings, serving: Ask, assemble: Assemble) -> Iterator[str]:
    """The service with a mebibyte for all bodies together."""
    server = ServerSettings(bodies_bytes=1024 * 1024)
    with serving(assemble(settings.model_copy(update={"server": server}))) as url:
        yield url


def test_bodies_that_fill_the_memory(small_memory: str, keys: dict[str, str], assert_problem: Ask) -> None:
    batch = json.dumps({"votes": [{**VOTE, "battle_id": "b"}]}).encode().ljust(700_000)
    key = {"Authorization": f"Bearer {keys['ingest']}", "Content-Type": "application/json"}
    lines = [f"{name}: {value}" for name, value in key.items()]
    with connected(small_memory) as raw, Client(base_url=f"{small_memory}{API}", headers=key, timeout=120) as client:
        raw.send("POST", f"{API}/votes/batch", *lines, "Expect: 100-continue", f"Content-Length: {len(batch)}")
        assert raw.head()[0] == 100  # it holds its part from now on
        refused = client.post("/votes/batch", content=batch)
        assert_problem(refused, 503, "too-many-bodies")
        assert (refused.headers["connection"], int(refused.headers["retry-after"]) > 0) == ("close", True)
        chunked = client.post("/votes/batch", content=iter([batch[:400_000], batch[400_000:]]))
        assert_problem(chunked, 503, "too-many-bodies")
        assert client.post("/votes", json=VOTE).status_code == 201, "small bodies have a part of their own"
        raw.socket.sendall(batch)
        assert raw.head()[0] == 200
        assert client.post("/votes/batch", content=batch).json()["counts"]["duplicate"] == 1


def test_large_bodies_are_parsed_in_a_thread() -> None:
    async def parsed_in(size: int) -> bool:
        thread = await parse_body(lambda _: threading.get_ident(), b" " * size)
        return thread != threading.get_ident()

    assert [asyncio.run(parsed_in(size)) for size in (SMALL, SMALL + 1)] == [False, True]


def test_requests_in_progress_of_an_address() -> None:
    limits = RateLimits(per_key=None, per_address=None, at_once=2)

    def enter(host: str) -> dict[str, Any]:
        scope: dict[str, Any] = {"client": (host, 1), "state": {}}
        limits.count_anonymous(scope)
        limits.count_anonymous(scope)  # the same request
        state: dict[str, Any] = scope["state"]
        return state

    first, _ = enter("2001:db8::1"), enter("2001:db8::2")
    with pytest.raises(RateLimitedError):
        enter("2001:db8::3")
    enter("192.0.2.1")
    first["in_progress"]()
    enter("2001:db8::3")


def test_open_answers_count_until_they_end(settings: Settings, serving: Ask, assert_problem: Ask) -> None:
    server = ServerSettings(connections_per_address=2)
    app: FastAPI = create_app(settings.model_copy(update={"server": server}))
    with serving(app) as url, Client(base_url=url, timeout=120) as client:
        here, elsewhere = ({"X-Forwarded-For": address} for address in ("192.0.2.1", "192.0.2.2"))
        with client.stream("GET", "/events", headers=here), client.stream("GET", "/events", headers=here):
            refused = client.get(f"{API}/leaderboard", headers=here)
            assert_problem(refused, 429, "rate-limited")
            assert client.get(f"{API}/leaderboard", headers=elsewhere).status_code == 404
        tried = 0
        while client.get(f"{API}/leaderboard", headers=here).status_code == 429:
            tried += 1
            assert tried < 2000, "answers that ended still count"
