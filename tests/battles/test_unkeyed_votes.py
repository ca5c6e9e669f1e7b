"""Browsers that hold a token and nothing else: limits, origins, and the privacy of the annotator."""

from collections.abc import Callable

import pytest
from httpx import Client, Response
from pydantic import SecretStr
from sqlalchemy import text

from app.database.engine import Database
from app.settings import Settings
from app.settings.groups import BattleSettings, ServerSettings

ORIGIN = "https://arena.example"

pytestmark = pytest.mark.usefixtures("limits_clock")


@pytest.fixture
def settings(settings: Settings) -> Settings:
    changed = {
        "server": ServerSettings(anonymous_requests_per_minute=2, cors_origins=(ORIGIN,)),
        "battles": BattleSettings(token_seconds=120),
        "pseudonym_key": SecretStr("a secret of this test, 32 bytes long"),
    }
    return settings.model_copy(update=changed)


@pytest.fixture
def offer(client: Client, keys: dict[str, str], database: Database) -> Callable[[], dict[str, str]]:
    with database.begin() as conn:
        conn.execute(text("INSERT INTO models (name) VALUES ('a'), ('b')"))

    def ask() -> dict[str, str]:
        headers = {"Authorization": f"Bearer {keys['ingest']}"}
        answer = client.post("/api/v1/battles", json={"annotator": "zoe@example.org"}, headers=headers)
        assert answer.status_code == 201
        return dict(answer.json())

    return ask


def cast(client: Client, token: str, **fields: str) -> Response:
    body = {"token": token, "winner": "tie", **fields}
    return client.post("/api/v1/votes", json=body, headers={"Origin": ORIGIN})


def test_tokens_have_a_limit_of_their_own(client: Client, offer: Callable[[], dict[str, str]]) -> None:
    first, *others = (offer()["token"] for _ in range(8))
    assert [cast(client, first).status_code for _ in range(31)] == [201, *[200] * 29, 429]
    assert {cast(client, token).status_code for token in others} == {201}, "one address, many annotators"
    assert [cast(client, "forged").status_code for _ in range(3)] == [422, 422, 429], "guessing is slow"
    assert cast(client, offer()["token"]).status_code == 201, "and guesses keep no token from counting"


def test_a_page_of_a_known_origin_may_vote(client: Client, offer: Callable[[], dict[str, str]]) -> None:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    allowed = client.options("/api/v1/votes", headers={"Origin": ORIGIN, **asked})
    assert allowed.headers["access-control-allow-origin"] == ORIGIN
    answer = cast(client, offer()["token"])
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (201, ORIGIN)


def test_raw_keys_of_annotators_are_not_stored(
    client: Client, keys: dict[str, str], database: Database, offer: Callable[[], dict[str, str]]
) -> None:
    offered = offer()
    review = {"Authorization": f"Bearer {keys['review']}"}
    found = client.get("/api/v1/battles", params={"annotator": "zoe@example.org"}, headers=review).json()["items"]
    assert [one["battle_id"] for one in found] == [offered["battle_id"]]
    assert found[0]["annotator"].startswith("p1_")
    assert cast(client, offered["token"], annotator="zoe@example.org").status_code == 201, "the raw key still names her"
    with database.read() as conn:
        stored = conn.execute(
            text("SELECT jsonb_agg(b)::text || (SELECT jsonb_agg(a)::text FROM annotators a) FROM battles b")
        )
        assert "zoe" not in stored.scalar_one()
