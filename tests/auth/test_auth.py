import re
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from httpx import Client

from app.auth import known_callers as callers
from app.auth.service import create_key, revoke_key
from app.database.engine import Database
from app.main import create_app
from app.settings import Settings

Ask = Callable[..., Any]

VOTE = {"model_a": "a", "model_b": "b", "winner": "tie", "annotator": "k"}
OPEN = {"/healthz", "/readyz"}


def post(client: Client, authorization: str) -> Any:
    return client.post("/api/v1/votes", json=VOTE, headers={"Authorization": authorization})


@pytest.mark.parametrize(
    "form",
    [
        "{key}", "Basic {key}", "Bearer", "Bearer x", "Bearer {key}x", "Bearer {short}", "Bearer {key} {key}",
        "Bearer sa_00000000_0000000000000000000000000000", "Bearer {typo}", "Bearer \xe9\xff", "Token {key}",
    ],
)  # fmt: skip
def test_what_is_not_a_key(client: Client, keys: dict[str, str], assert_problem: Ask, form: str) -> None:
    key = keys["ingest"]
    typo = key[:-1] + ("a" if key[-1] != "a" else "b")
    header = form.format(key=key, short=key[:-1], typo=typo).encode("latin-1")
    response = client.post("/api/v1/votes", json=VOTE, headers={b"Authorization": header})
    body = assert_problem(response, 401, "not-authenticated")
    assert key not in str(body)


def test_bearer_is_spelled_as_one_likes(client: Client, keys: dict[str, str]) -> None:
    assert post(client, f"bEARER {keys['ingest']}").status_code == 201


def test_admin_may_do_everything(client: Client, keys: dict[str, str]) -> None:
    assert post(client, f"Bearer {keys['admin']}").status_code == 201


def test_an_unknown_key_of_the_right_form(client: Client, database: Database, assert_problem: Ask) -> None:
    with database.begin() as conn:
        _, secret = create_key(conn, "gone", ["ingest"])
        conn.get_transaction().rollback()  # type: ignore[union-attr]  # begin() has begun it
    assert_problem(post(client, f"Bearer {secret}"), 401, "not-authenticated")


def test_a_revoked_key_works_no_longer_than_it_is_remembered(
    client: Client, database: Database, assert_problem: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.begin() as conn:
        record, secret = create_key(conn, "to go", ["ingest"])
    assert post(client, f"Bearer {secret}").status_code == 201
    with database.begin() as conn:
        revoke_key(conn, record.prefix)
    later = time.monotonic() + 5.0
    monkeypatch.setattr(callers, "time", SimpleNamespace(monotonic=lambda: later))
    assert_problem(post(client, f"Bearer {secret}"), 401, "not-authenticated")


def test_a_known_key_is_not_looked_up_again(
    client: Client, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    authenticate = callers.authenticate

    def counted(conn: Any, secret: str) -> Any:
        asked.append(secret)
        return authenticate(conn, secret)

    monkeypatch.setattr(callers, "authenticate", counted)
    now = time.monotonic()
    monkeypatch.setattr(callers, "time", SimpleNamespace(monotonic=lambda: now))
    for _ in range(5):
        assert post(client, f"Bearer {keys['ingest']}").status_code == 201
    assert asked == [keys["ingest"]]


def _operations() -> list[tuple[str, str]]:
    paths = create_app(Settings()).openapi()["paths"]
    return [(method.upper(), path) for path, methods in paths.items() for method in methods if path not in OPEN]


@pytest.mark.parametrize(("method", "path"), _operations())
def test_every_route_has_a_rule(client: Client, assert_problem: Ask, method: str, path: str) -> None:
    filled = re.sub(r"{\w+}", str(uuid4()), path)
    wrong = {"Authorization": "Bearer sa_wrong"}
    assert_problem(client.request(method, filled, headers=wrong), 401, "not-authenticated")
