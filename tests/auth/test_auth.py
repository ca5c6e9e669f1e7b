import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from httpx import Client

from app.auth.callers import KnownCallers
from app.auth.keys import create_key, revoke_key
from app.auth.tokens import authenticate_any
from app.database.engine import Database
from app.errors import NotAuthenticatedError

Ask = Callable[..., Any]

VOTE = {"model_a": "a", "model_b": "b", "winner": "tie", "annotator": "k"}


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


def test_a_revoked_key_works_no_longer_than_it_is_remembered(database: Database, keys: dict[str, str]) -> None:
    now = 100.0
    known = KnownCallers(partial(authenticate_any, database), timer=lambda: now)

    async def identify_again_and_again() -> None:
        nonlocal now
        for _ in range(3):
            assert (await known.identify(keys["ingest"])).scopes == {"ingest"}
        with database.begin() as conn:
            revoke_key(conn, keys["ingest"].split("_")[1])
        now += 4.99
        assert (await known.identify(keys["ingest"])).scopes == {"ingest"}
        now += 0.01
        with pytest.raises(NotAuthenticatedError):
            await known.identify(keys["ingest"])

    asyncio.run(identify_again_and_again())


def test_a_known_key_is_looked_up_once(database: Database, keys: dict[str, str]) -> None:
    looked_up: list[str] = []

    def look_up(secret: str) -> Any:
        looked_up.append(secret)
        return authenticate_any(database, secret)

    known = KnownCallers(look_up, timer=lambda: 100.0)

    async def identify_at_once_and_later() -> None:
        await asyncio.gather(*(known.identify(keys["ingest"]) for _ in range(5)))
        await known.identify(keys["ingest"])

    asyncio.run(identify_at_once_and_later())
    assert looked_up == [keys["ingest"]]
