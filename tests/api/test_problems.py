import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from httpx import Client
from sqlalchemy import event, text

import app.worker  # noqa: F401  its errors are problems too, and servers start without it
from app.api.dependencies import Transaction
from app.database.embedded import EmbeddedServerError
from app.database.engine import Database
from app.errors import BadInputError, ConflictError, NotFoundError, StableArenaError, UnavailableError
from app.guard.refusals import STATUS
from app.main import create_app
from app.settings import ServerSettings, Settings

Ask = Callable[..., Any]

VOTE = {"model_a": "a", "model_b": "b", "winner": "tie", "annotator": "k"}


@pytest.fixture(scope="module")
def _faulty_app() -> FastAPI:
    app = create_app(Settings())

    @app.get("/bug")
    def bug() -> None:
        raise ZeroDivisionError("the secret is 271828")

    @app.get("/raise/{code}")
    def refuse(code: str) -> None:
        kinds = {kind.code: kind for kind in (BadInputError, ConflictError, NotFoundError, UnavailableError)}
        raise kinds[code]("as was asked for")

    @app.get("/folder")
    def name_a_folder() -> None:
        raise EmbeddedServerError("it did not come up: see /srv/arena/log")

    @app.post("/write", status_code=201)
    def write(conn: Transaction) -> dict[str, str]:
        conn.execute(text("INSERT INTO models (name) VALUES ('written')"))
        return {"status": "written"}

    return app


@pytest.fixture
def faulty_app(_faulty_app: FastAPI, settings: Settings) -> FastAPI:
    """The service with endpoints that fail in every way."""
    _faulty_app.state.settings = settings
    return _faulty_app


@pytest.fixture
def faulty(faulty_app: FastAPI, serving: Callable[[FastAPI], Any]) -> Iterator[Client]:
    with serving(faulty_app) as url, Client(base_url=url, timeout=120) as client:
        yield client


def models(database: Database) -> int:
    with database.read() as conn:
        return int(conn.execute(text("SELECT count(*) FROM models")).scalar_one())


def test_a_bug_is_logged_and_not_told(faulty: Client, assert_problem: Ask, capfd: pytest.CaptureFixture[str]) -> None:
    body = assert_problem(faulty.get("/bug"), 500, "internal")
    assert "271828" not in str(body)
    log = capfd.readouterr().err
    assert body["request_id"] in log
    assert "ZeroDivisionError" in log


def test_why_the_service_could_not_answer_is_logged(
    faulty_app: FastAPI, serving: Callable[[FastAPI], Any], capfd: pytest.CaptureFixture[str]
) -> None:
    # A request is logged after its answer is sent: all lines are there once the service has stopped.
    with serving(faulty_app) as url, Client(base_url=url, timeout=120) as client:
        assert client.get("/raise/unavailable").status_code == 503
        assert client.get("/raise/conflict").status_code == 409
    [line] = [line for line in capfd.readouterr().err.splitlines() if "as was asked for" in line]
    assert "status=503" in line


def test_where_things_are_on_the_machine_is_logged_and_not_told(
    faulty_app: FastAPI, serving: Callable[[FastAPI], Any], assert_problem: Ask, capfd: pytest.CaptureFixture[str]
) -> None:
    with serving(faulty_app) as url, Client(base_url=url, timeout=120) as client:
        body = assert_problem(client.get("/folder"), 503, "unavailable")
    assert "/srv/arena" not in str(body)
    assert "/srv/arena" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("code", "status"), [("invalid", 422), ("conflict", 409), ("not-found", 404), ("unavailable", 503)]
)
def test_errors_and_their_statuses(faulty: Client, assert_problem: Ask, code: str, status: int) -> None:
    assert assert_problem(faulty.get(f"/raise/{code}"), status, code)["detail"] == "as was asked for"


def _all_errors(kind: type[StableArenaError] = StableArenaError) -> list[type[StableArenaError]]:
    return [kind, *(found for child in kind.__subclasses__() for found in _all_errors(child))]


def test_every_error_has_a_code_and_a_status_of_its_own() -> None:
    ours = [kind for kind in _all_errors() if kind.__module__.startswith("app.")]
    assert all(any(parent in STATUS for parent in kind.__mro__[:-1]) for kind in ours)
    # A class that only narrows another's meaning may share its code; unrelated ones may not.
    first = {kind: next(one for one in kind.__mro__[::-1] if getattr(one, "code", "") == kind.code) for kind in ours}
    for kind in ours:
        assert all(first[one] is first[kind] for one in ours if one.code == kind.code)


def test_a_success_is_committed(faulty: Client, database: Database) -> None:
    assert faulty.post("/write").status_code == 201
    assert models(database) == 1


def test_a_commit_that_fails_is_no_success(
    faulty: Client, faulty_app: FastAPI, database: Database, assert_problem: Ask
) -> None:
    def cut(conn: Any) -> None:
        conn.exec_driver_sql("SELECT pg_terminate_backend(pg_backend_pid())")

    event.listen(faulty_app.state.process[Database].engine, "commit", cut)
    assert_problem(faulty.post("/write"), 503, "database-unreachable")
    event.remove(faulty_app.state.process[Database].engine, "commit", cut)
    assert models(database) == 0


@pytest.mark.own_database
def test_a_constraint_that_fails_at_the_commit_is_no_success(faulty: Client, database: Database) -> None:
    with database.begin() as conn:
        conn.execute(text("ALTER TABLE models ADD CONSTRAINT late UNIQUE (name) DEFERRABLE INITIALLY DEFERRED"))
        conn.execute(text("ALTER TABLE models DROP CONSTRAINT uq_models_name"))
    assert faulty.post("/write").status_code == 201
    assert faulty.post("/write").status_code == 500
    assert models(database) == 1


def test_nothing_there(client: Client, assert_problem: Ask) -> None:
    assert_problem(client.get("/nothing"), 404, "not-found")
    assert_problem(client.get("/api/v1/votes/"), 404, "not-found")


def test_the_instance_is_a_reference(client: Client, assert_problem: Ask) -> None:
    for path, instance in (("/GPT 4/é%2525", "/GPT%204/%C3%A9%2525"), ("/a%2Fb:c", "/a/b:c"), ("/%ED%A0%80", None)):
        body = assert_problem(client.get(path), 404, "not-found")
        assert instance in (None, body["instance"])


def test_a_method_that_is_not_there(client: Client, assert_problem: Ask) -> None:
    response = client.put("/api/v1/votes")
    assert_problem(response, 405, "method-not-allowed")
    assert response.headers["allow"] == "POST"


def test_the_methods_that_are_there_are_named_whole(client: Client, assert_problem: Ask) -> None:
    response = client.delete("/api/v1/refits")
    assert_problem(response, 405, "method-not-allowed")
    assert response.headers["allow"] == "GET, HEAD, POST"
    assert client.head("/api/v1/votes").headers["allow"] == "POST"


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/models/a/aliases", "POST"),
        ("/models/a/aliases/1", "DELETE"),
        ("/models/a/merge", "POST"),
        ("/models/a/changed", "POST"),
        ("/models/a/other", "GET, HEAD, PATCH"),
        ("/annotators/a/erase", "POST"),
        ("/annotators/a/history", "GET, HEAD"),
        ("/votes/batch", "POST"),
        ("/snapshots/events", "GET, HEAD"),
    ],
)
def test_the_methods_of_a_neighbour_are_not_named(client: Client, assert_problem: Ask, path: str, methods: str) -> None:
    response = client.put(f"/api/v1{path}")
    assert_problem(response, 405, "method-not-allowed")
    assert response.headers["allow"] == methods


@pytest.mark.parametrize("path", ["/healthz", "/api/v1/leaderboard", "/api/v1/refits", "/nothing"])
def test_head_is_get_without_the_body(client: Client, keys: dict[str, str], path: str) -> None:
    headers = {"Authorization": f"Bearer {keys['admin']}", "X-Request-ID": "mine"}
    whole, head = (client.request(method, path, headers=headers) for method in ("GET", "HEAD"))
    changing = ("date", "ratelimit")
    shown, sent = ({n: v for n, v in r.headers.items() if n not in changing} for r in (whole, head))
    assert (head.status_code, sent, head.content) == (whole.status_code, shown, b"")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", None])
def test_bodies_of_another_kind(client: Client, assert_problem: Ask, kind: str | None) -> None:
    headers = {"Content-Type": kind} if kind else {}
    response = client.post("/api/v1/votes", content=json.dumps(VOTE), headers=headers)
    assert_problem(response, 415, "media-type")


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON", "application/vote+json"])
def test_json_under_its_other_names(ask: Ask, kind: str) -> None:
    assert ask("POST", "/votes", content=json.dumps(VOTE), headers={"Content-Type": kind}).status_code == 201


@pytest.fixture
def tight(settings: Settings, serving: Callable[[FastAPI], Any]) -> Iterator[Client]:
    """The service with room for bodies of 2,000 bytes."""
    small = settings.model_copy(update={"server": ServerSettings(max_body_bytes=2000)})
    with serving(create_app(small)) as url, Client(base_url=url, timeout=120) as client:
        yield client


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_large(
    tight: Client, keys: dict[str, str], assert_problem: Ask, chunked: bool, database: Database
) -> None:
    headers = {"Authorization": f"Bearer {keys['ingest']}", "Content-Type": "application/json"}
    fitting = json.dumps(VOTE).encode().ljust(2000)
    larger = json.dumps({**VOTE, "annotator": "other"}).encode().ljust(2001)
    for content, status in ((fitting, 201), (larger, 413)):
        sent: Any = iter([content[:900], content[900:]]) if chunked else content
        response = tight.post("/api/v1/votes", content=sent, headers=headers)
        assert response.status_code == status
    assert_problem(response, 413, "body-too-large")
    with database.read() as conn:
        assert conn.execute(text("SELECT count(*) FROM votes")).scalar_one() == 1


def test_bodies_that_the_framework_reads(ask: Ask, assert_problem: Ask) -> None:
    as_json = {"Content-Type": "application/json"}
    for content in (b"{", b"[" * 60_000, b"\xff"):
        assert_problem(ask("PUT", "/policy", content=content, headers=as_json), 400, "malformed-body")


@pytest.mark.parametrize("given", ["abc-123_x.Y", "x" * 64])
def test_a_caller_s_request_id_is_kept(client: Client, given: str) -> None:
    response = client.get("/nothing", headers={"X-Request-ID": given})
    assert response.headers["x-request-id"] == response.json()["request_id"] == given


@pytest.mark.parametrize("given", ["", "x" * 65, "a b", "ü", '"'])
def test_a_request_id_that_is_none_is_replaced(client: Client, given: str) -> None:
    response = client.get("/nothing", headers={b"X-Request-ID": given.encode()})
    assert response.headers["x-request-id"] == response.json()["request_id"]
    assert len(response.json()["request_id"]) == 32


def test_the_description_is_complete(client: Client) -> None:
    schema = client.get("/api/v1/openapi.json").json()
    text_of = json.dumps(schema)
    operations = [(path, operation) for path, methods in schema["paths"].items() for operation in methods.values()]
    assert len({operation["operationId"] for _, operation in operations}) == len(operations)
    for path, operation in operations:
        assert operation["summary"], path
        assert operation["description"], path
        problems = {s: r for s, r in operation["responses"].items() if s >= "400"}
        assert "500" in problems
        for status, response in problems.items():
            assert list(response["content"]) == ["application/problem+json"], (path, status)
        if "requestBody" in operation:
            assert {"400", "413", "415", "422"} <= problems.keys()
        if path.startswith("/api/"):
            assert "security" in operation, path  # empty where everyone may read
            assert {"401", "403", "503"} <= problems.keys()
    assert "HTTPValidationError" not in text_of
    for part in {part.split('"')[0] for part in text_of.split("#/components/schemas/")[1:]}:
        assert part in schema["components"]["schemas"]
    assert schema["components"]["securitySchemes"]["apiKey"]["scheme"] == "bearer"
