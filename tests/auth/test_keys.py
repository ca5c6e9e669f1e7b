from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from httpx import Client
from sqlalchemy import text

from app.database.engine import Database

Ask = Callable[..., Any]

VOTE = {"model_a": "a", "model_b": "b", "winner": "tie", "annotator": "k"}


def shown(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture
def make(ask: Ask) -> Ask:
    """Make a key over HTTP and return the answer."""

    def post(**body: Any) -> Any:
        answer = ask("POST", "/keys", json={"name": "front end", "scopes": ["ingest"], **body})
        assert answer.status_code == 201, answer.text
        assert answer.headers["cache-control"] == "no-store"
        return answer.json()

    return post


def test_a_key_from_its_making_to_its_end(client: Client, ask: Ask, make: Ask, assert_problem: Ask) -> None:
    ends = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    made = make(expires_at=ends, requests_per_minute=5)
    assert client.post("/api/v1/votes", json=VOTE, headers=shown(made["key"])).status_code == 201
    listed = next(key for key in ask("GET", "/keys").json()["items"] if key["id"] == made["id"])
    assert {**listed, "key": made["key"]} == made
    assert made["key"] not in ask("GET", "/keys").text
    assert ask("GET", "/audit").json()["items"][0]["actor"] == "admin key"
    deleted = ask("DELETE", f"/keys/{made['id']}")
    assert deleted.status_code == 200
    assert deleted.json()["revoked_at"]
    assert ask("DELETE", f"/keys/{made['id']}").json() == deleted.json()
    # A key that was not remembered ends at once.
    unused = make()
    ask("DELETE", f"/keys/{unused['id']}")
    assert_problem(client.post("/api/v1/votes", json=VOTE, headers=shown(unused["key"])), 401, "not-authenticated")


def test_rotating(client: Client, ask: Ask, make: Ask, assert_problem: Ask) -> None:
    old = make()
    rotated = ask("POST", f"/keys/{old['id']}/rotate", json={"overlap_seconds": 60})
    assert rotated.status_code == 201, rotated.text
    for key in (old["key"], rotated.json()["key"]):
        assert client.post("/api/v1/votes", json=VOTE, headers=shown(key)).status_code == 201
    assert_problem(ask("POST", f"/keys/{old['id']}/rotate"), 409, "conflict")
    newer = ask("POST", f"/keys/{rotated.json()['id']}/rotate", json={"overlap_seconds": 0}).json()
    again = ask("POST", f"/keys/{newer['id']}/rotate")
    assert again.status_code == 201


def test_a_key_as_good_as_for_ever_can_be_rotated(ask: Ask, make: Ask) -> None:
    old = make(expires_at="9999-12-30T00:00:00Z")
    rotated = ask("POST", f"/keys/{old['id']}/rotate", json={"overlap_seconds": 60})
    assert rotated.status_code == 201, rotated.text
    assert rotated.json()["expires_at"] == "9999-12-30T00:00:00Z"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"name": " "}, "/name"),
        ({"name": ""}, "/name"),
        ({"scopes": []}, "/scopes"),
        ({"scopes": ["root"]}, "/scopes/0"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "/expires_at"),
        ({"expires_at": "2999-01-01T00:00:00"}, "/expires_at"),
        ({"expires_at": "9999-12-31T23:59:59-12:00"}, "/expires_at"),
        ({"requests_per_minute": 0}, "/requests_per_minute"),
        ({"extra": 1}, "/extra"),
    ],
)
def test_keys_that_cannot_be(ask: Ask, assert_problem: Ask, body: dict[str, Any], pointer: str) -> None:
    answer = ask("POST", "/keys", json={"name": "k", "scopes": ["read"], **body})
    assert [error["pointer"] for error in assert_problem(answer, 422, "invalid")["errors"]] == [pointer]


def test_no_such_key(ask: Ask, assert_problem: Ask) -> None:
    assert_problem(ask("DELETE", f"/keys/{uuid4()}"), 404, "not-found")
    assert_problem(ask("POST", f"/keys/{uuid4()}/rotate"), 404, "not-found")
    assert_problem(ask("DELETE", "/keys/x"), 422, "invalid")


def add_models(ask: Ask) -> None:
    """Add the models of `VOTE`: a vote by a token adds none."""
    for side in ("model_a", "model_b"):
        assert ask("POST", "/models", json={"name": VOTE[side]}).status_code == 201


def test_a_token_posts_votes_and_nothing_else(client: Client, ask: Ask, assert_problem: Ask) -> None:
    add_models(ask)
    made = ask("POST", "/keys/tokens", scope="ingest", json={"seconds": 60})
    assert (made.status_code, made.headers["cache-control"]) == (201, "no-store")
    headers = shown(made.json()["token"])
    assert client.post("/api/v1/votes", json=VOTE, headers=headers).status_code == 201
    batch = {"votes": [VOTE, {**VOTE, "annotator": "l"}]}
    assert client.post("/api/v1/votes/batch", json=batch, headers=headers).json()["counts"]["created"] == 2
    for method, path in (("POST", "/keys/tokens"), ("GET", "/policy"), ("GET", "/keys"), ("POST", "/retractions")):
        assert_problem(client.request(method, f"/api/v1{path}", headers=headers), 403, "scope-missing")


def test_a_token_for_one_annotator(client: Client, ask: Ask, assert_problem: Ask, database: Database) -> None:
    add_models(ask)
    made = ask("POST", "/keys/tokens", scope="ingest", json={"annotator": "k"}).json()
    headers = shown(made["token"])
    assert client.post("/api/v1/votes", json=VOTE, headers=headers).status_code == 201
    other = {**VOTE, "annotator": "l"}
    assert_problem(client.post("/api/v1/votes", json=other, headers=headers), 403, "foreign-annotator")
    batch = client.post("/api/v1/votes/batch", json={"votes": [other, VOTE, 7]}, headers=headers).json()
    assert [one["status"] for one in batch["results"]] == ["invalid", "created", "invalid"]
    assert batch["results"][0]["errors"][0]["pointer"] == "/annotator"
    with database.read() as conn:
        assert conn.execute(text("SELECT array_agg(key) FROM annotators")).scalar_one() == ["k"]


def test_a_token_of_a_revoked_key(client: Client, ask: Ask, make: Ask, assert_problem: Ask) -> None:
    key = make()
    token = client.post("/api/v1/keys/tokens", headers=shown(key["key"])).json()["token"]
    ask("DELETE", f"/keys/{key['id']}")
    assert_problem(client.post("/api/v1/votes", json=VOTE, headers=shown(token)), 401, "not-authenticated")


@pytest.mark.parametrize("seconds", [0, 3601, "x"])
def test_lives_of_tokens_that_cannot_be(ask: Ask, assert_problem: Ask, seconds: Any) -> None:
    answer = ask("POST", "/keys/tokens", scope="ingest", json={"seconds": seconds})
    assert assert_problem(answer, 422, "invalid")["errors"][0]["pointer"] == "/seconds"
