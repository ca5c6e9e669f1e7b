import gzip
import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi import FastAPI
from httpx import Client
from pydantic import ValidationError
from sqlalchemy import text

from app.database.engine import Database
from app.guard import bodies
from app.guard.bodies import BodyGate
from app.main import create_app
from app.settings import ServerSettings, Settings
from tests.fixtures.application import Assemble
from tests.fixtures.environment import Configure

Ask = Callable[..., Any]

DOCS = Path(__file__).parents[2] / "docs"
VOTE = {"model_a": "a", "model_b": "b", "winner": "tie", "annotator": "k"}
JSON = {"Content-Type": "application/json"}
BODIES = [
    ("POST", "/votes"), ("POST", "/votes/batch"), ("POST", "/refits"), ("PUT", "/policy"), ("POST", "/keys"),
    ("POST", "/keys/tokens"), ("POST", "/annotators/k/decisions"), ("POST", "/retractions"),
]  # fmt: skip


def no_votes(database: Database) -> bool:
    with database.read() as conn:
        return conn.execute(text("SELECT count(*) FROM votes")).scalar_one() == 0


LONG = ("/votes", "/votes/batch")  # paths whose bodies may be longer than 64 KiB


def deep(levels: int) -> dict[str, bytes]:
    """Bodies that nest so deep."""
    return {
        "deep lists": b"[" * levels,
        "deep objects": b'{"a":' * levels,
        "deep and closed": b"[" * levels + b"]" * levels,
        "deep metadata": b'{"metadata":' * levels + b"1" + b"}" * levels,
    }


NO_JSON = {
    "cut short": b"{",
    "no UTF-8": b'{"model_a": "\xff"}',
    "UTF-16": '{"name": "é"}'.encode("utf-16"),
    "NUL": b'{"model_a": "\x00"}',
    "twice": b'{"reason": "x", "reason": "y"}',
    "NaN": b'{"settings": NaN}',
    "-Infinity": b'{"settings": -Infinity}',
    "long number": b'{"name": 1' + b"0" * 5000 + b"}",
}


@pytest.mark.parametrize(("method", "path"), BODIES)
def test_bodies_that_are_no_json(ask: Ask, method: str, path: str) -> None:
    for name, body in {**NO_JSON, **deep(30_000 if path in LONG else 4_000)}.items():
        answer = ask(method, path, content=body, headers=JSON)
        assert answer.status_code in (400, 422), (name, answer.text)
        assert answer.json()["type"] in ("/problems/malformed-body", "/problems/invalid"), name


def test_very_many_names_are_too_much_metadata(ask: Ask, assert_problem: Ask) -> None:
    names = ",".join(f'"{i}":0' for i in range(50_000))
    body = json.dumps(VOTE)[:-1] + f', "metadata": {{{names}}}}}'
    assert_problem(ask("POST", "/votes", content=body, headers=JSON), 422, "invalid")


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_number_is_no_vote(ask: Ask, database: Database, constant: str) -> None:
    body = json.dumps(VOTE)[:-1] + f', "metadata": {{"x": {constant}}}}}'
    assert ask("POST", "/votes", content=body, headers=JSON).status_code in (400, 422)
    batch = ask("POST", "/votes/batch", content=f'{{"votes": [{body}]}}', headers=JSON)
    assert batch.status_code in (400, 422) or batch.json()["counts"]["created"] == 0
    assert no_votes(database)


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "br", "deflate", "identity, gzip", "x"])
def test_compressed_bodies_are_refused(ask: Ask, assert_problem: Ask, database: Database, encoding: str) -> None:
    headers = {**JSON, "Content-Encoding": encoding}
    for path in ("/votes", "/votes/batch"):
        answer = ask("POST", path, content=gzip.compress(json.dumps(VOTE).encode()), headers=headers)
        assert_problem(answer, 415, "media-type")
    assert no_votes(database)


def test_an_encoding_that_is_none(ask: Ask) -> None:
    headers = {**JSON, "Content-Encoding": "Identity"}
    assert ask("POST", "/votes", content=json.dumps(VOTE), headers=headers).status_code == 201


@pytest.mark.parametrize("charset", ["punycode", '"Idna"', "unicode_escape", "utf-16", "utf-8; charset=x"])
def test_forms_in_odd_charsets_are_refused_unread(client: Client, charset: str) -> None:
    kind = f"Multipart/form-data; boundary=x; charset={charset}"
    part = b'--x\r\nContent-Disposition: form-data; name="key"\r\n\r\n-aaaa\r\n--x--\r\n'
    headers = [("Content-Type", kind), ("Content-Type", "text/plain")]
    answer = client.post("/console/sign-in", content=part, headers=headers)
    assert (answer.status_code, answer.headers["connection"]) == (415, "close")
    assert "form in UTF-8" in answer.text


@pytest.mark.parametrize("charset", ["", "; charset=UTF-8"])
def test_forms_in_utf8_are_read(client: Client, charset: str) -> None:
    part = b'--x\r\nContent-Disposition: form-data; name="key"\r\n\r\nsa_x\r\n--x--\r\n'
    headers = {"Content-Type": f"multipart/form-data; boundary=x{charset}", "Origin": str(client.base_url).rstrip("/")}
    assert client.post("/console/sign-in", content=part, headers=headers).status_code == 401


@pytest.fixture
def impatient(settings: Settings, serving: Callable[[FastAPI], Any]) -> Iterator[str]:
    """The service with half a second for a body."""
    app = create_app(settings)
    gate = next(each for each in app.user_middleware if each.cls is BodyGate)
    gate.kwargs["body_seconds"] = 0.5
    with serving(app) as url:
        yield url


def send_slowly(url: str, key: str, parts: Iterator[bytes], *, length: int, pause: float) -> tuple[bytes, float]:
    """Send a vote's head and then these parts of its body; return the answer and how long it took."""
    host, port = urlsplit(url).netloc.split(":")
    head = (
        f"POST /api/v1/votes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
    )
    with socket.create_connection((host, int(port)), timeout=120) as connection:
        began = time.monotonic()
        connection.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode() + next(parts, b""))
        connection.settimeout(pause)
        answer = b""
        while not answer:
            part = next(parts, b"")
            if part:
                connection.sendall(part)
            try:
                answer = connection.recv(65536)
            except TimeoutError:
                assert time.monotonic() - began < 120, "no answer"
        return answer, time.monotonic() - began


@pytest.mark.parametrize("pause", [0.05, 0.2], ids=["byte by byte", "now and then"])
def test_a_body_that_drips(impatient: str, keys: dict[str, str], database: Database, pause: float) -> None:
    body = json.dumps(VOTE).encode().ljust(100_000)
    parts = (body[i : i + 1] for i in range(len(body)))
    answer, seconds = send_slowly(impatient, keys["ingest"], parts, length=len(body), pause=pause)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"/problems/body-too-slow" in answer
    assert b"connection: close" in answer.lower()
    assert seconds > 0.4
    assert no_votes(database)


def test_a_body_that_never_comes(impatient: str, keys: dict[str, str]) -> None:
    answer, _ = send_slowly(impatient, keys["ingest"], iter(()), length=100, pause=0.05)
    assert answer.startswith(b"HTTP/1.1 408 ")


def test_a_long_body_has_longer(
    impatient: str, keys: dict[str, str], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte buys a second here, so that a slow machine is no slow sender."""
    monkeypatch.setattr(bodies, "_BYTES_A_SECOND", 1)
    body = json.dumps(VOTE).encode().ljust(1000)
    parts = (body[i : i + 200] for i in range(0, len(body), 200))
    answer, seconds = send_slowly(impatient, keys["ingest"], parts, length=len(body), pause=0.2)
    assert answer.startswith(b"HTTP/1.1 201 "), answer
    assert seconds > 0.5


ORIGIN = "https://arena.example"


@pytest.fixture
def for_pages(settings: Settings, serving: Callable[[FastAPI], Any], assemble: Assemble) -> Iterator[Client]:
    """The service with an origin whose pages may call it."""
    server = ServerSettings.model_validate({"cors_origins": f"{ORIGIN}, http://localhost:3000"})
    with (
        serving(assemble(settings.model_copy(update={"server": server}))) as url,
        Client(base_url=f"{url}/api/v1", timeout=120) as client,
    ):
        yield client


def ask_first(client: Client, origin: str) -> Any:
    wanted = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    return client.options("/votes", headers={"Origin": origin, **wanted})


def test_pages_of_a_named_origin(for_pages: Client, keys: dict[str, str]) -> None:
    first = ask_first(for_pages, ORIGIN)
    assert (first.status_code, first.headers["access-control-allow-origin"]) == (200, ORIGIN)
    assert "idempotency-key" in first.headers["access-control-allow-headers"].lower()
    headers = {"Origin": ORIGIN, "Authorization": f"Bearer {keys['ingest']}"}
    for answer in (
        for_pages.post("/votes", json=VOTE, headers=headers),
        for_pages.post("/votes", content=b"{", headers=headers),
        for_pages.post("/votes", json=VOTE, headers={"Origin": ORIGIN}),
    ):
        assert answer.headers["access-control-allow-origin"] == ORIGIN
        assert {"RateLimit", "ETag", "Retry-After"} <= set(answer.headers["access-control-expose-headers"].split(", "))
        assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize(
    "origin", ["https://arena.example.evil.example", "http://arena.example", "https://arena.example:8443", "null"]
)
def test_pages_of_any_other_origin(for_pages: Client, origin: str) -> None:
    first = ask_first(for_pages, origin)
    assert first.status_code == 400
    for answer in (first, for_pages.post("/votes", json=VOTE, headers={"Origin": origin})):
        assert "access-control-allow-origin" not in answer.headers


def test_no_page_may_call_by_default(client: Client) -> None:
    for path in ("/api/v1/votes", "/api/v1/annotators", "/api/v1/leaderboards"):
        asked = client.options(path, headers={"Origin": ORIGIN, "Access-Control-Request-Method": "POST"})
        assert "access-control-allow-origin" not in asked.headers
        assert "access-control-allow-origin" not in client.get(path, headers={"Origin": ORIGIN}).headers


def test_a_public_leaderboard_is_readable_from_every_page(client: Client, for_pages: Client) -> None:
    rules = (DOCS / "reference.md").read_text(encoding="utf-8")
    public = re.findall(r"^\| `GET (/\S+)` \|.*\| public, or read \|$", rules.partition("## Pages")[0], re.MULTILINE)
    assert "/leaderboard" in public
    asked = {"Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "authorization,if-none-match"}
    for one in (client, for_pages):
        for path in (*public, "/openapi.json"):
            url = f"/api/v1{path}" if one is client else path
            with one.stream("GET", url, headers={"Origin": "https://other.example"}) as answer:
                assert answer.headers["access-control-allow-origin"] == "*", path
            assert one.options(url, headers={"Origin": ORIGIN, **asked}).status_code == 200
            changing = {"Origin": "https://other.example", "Access-Control-Request-Method": "POST"}
            assert "access-control-allow-origin" not in one.options(url, headers=changing).headers


def test_a_closed_leaderboard_is_readable_from_no_page(
    settings: Settings, serving: Callable[[FastAPI], Any], assemble: Assemble
) -> None:
    closed = assemble(settings.model_copy(update={"public_leaderboard": False}))
    with serving(closed) as url:
        answer = httpx.get(f"{url}/api/v1/leaderboard", headers={"Origin": ORIGIN}, timeout=120)
    assert (answer.status_code, "access-control-allow-origin" in answer.headers) == (401, False)


@pytest.mark.parametrize(
    "origins", ["*", "https://*.example", "arena.example", "https://arena.example/", "https://a,https://b/x", "null"]
)
def test_origins_that_are_none(origins: str) -> None:
    with pytest.raises(ValidationError):
        ServerSettings.model_validate({"cors_origins": origins})


def test_origins_from_the_environment(configure: Configure) -> None:
    configure(SERVER__CORS_ORIGINS="https://a.example, http://[::1]:3000,")
    assert Settings().server.cors_origins == ("https://a.example", "http://[::1]:3000")
    configure(SERVER__CORS_ORIGINS="")
    assert Settings().server.cors_origins == ()


@pytest.mark.parametrize("text", ["none", "None", " NONE "])
def test_a_limit_is_taken_away_by_its_own_variable(configure: Configure, text: str) -> None:
    names = ("WORKER__FIT_SECONDS", "WORKER__FIT_MEMORY_BYTES")
    names += ("SERVER__REQUESTS_PER_MINUTE", "SERVER__ANONYMOUS_REQUESTS_PER_MINUTE")
    assert Settings().worker.fit_seconds == 3600.0
    configure(**dict.fromkeys(names, text))
    settings = Settings()
    assert (settings.worker.fit_seconds, settings.worker.fit_memory_bytes) == (None, None)
    assert (settings.server.requests_per_minute, settings.server.anonymous_requests_per_minute) == (None, None)
    configure(WORKER__FIT_SECONDS="")  # a variable that got lost takes no limit away
    with pytest.raises(ValidationError) as refused:
        Settings()
    assert [error["loc"] for error in refused.value.errors()] == [("worker", "fit_seconds")]
