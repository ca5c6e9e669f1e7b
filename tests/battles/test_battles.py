"""Sealed battles over HTTP: drawn, voted on by their tokens, skipped, listed."""

import random
import string
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from httpx import Client, Response
from sqlalchemy import text

from app.auth.battle_tokens import BattleTokens, ForgedTokenError, read_battle_tokens
from app.database.engine import Database
from app.database.ids import new_id

Post = Callable[..., Response]
BATTLES, VOTES = "/api/v1/battles", "/api/v1/votes"


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def problem(response: Response) -> tuple[int, str]:
    assert response.headers["content-type"] == "application/problem+json", response.text
    return response.status_code, response.json()["type"].removeprefix("/problems/")


@pytest.fixture
def add_models(database: Database) -> Callable[..., None]:
    def add(*names: str) -> None:
        with database.begin() as conn:
            conn.execute(text("INSERT INTO models (name) VALUES (:name)"), [{"name": name} for name in names])

    return add


@pytest.fixture
def ask(client: Client, keys: dict[str, str], add_models: Callable[..., None]) -> Post:
    """Ask for a battle of an arena with four models."""
    add_models("a", "b", "c", "d")

    def post(annotator: str = "ann", *, headers: dict[str, str] | None = None, **fields: Any) -> Response:
        body = {"annotator": annotator, **fields}
        return client.post(BATTLES, json=body, headers={**bearer(keys["ingest"]), **(headers or {})})

    return post


@pytest.fixture
def cast(client: Client) -> Post:
    """Vote with a token, as a browser does: without a key."""

    def post(token: str, winner: str = "left", headers: dict[str, str] | None = None, **fields: str) -> Response:
        return client.post(VOTES, json={"token": token, "winner": winner, **fields}, headers=headers)

    return post


def tokens_of(database: Database) -> BattleTokens:
    with database.read() as conn:
        return read_battle_tokens(conn)


def expire(database: Database) -> None:
    with database.begin() as conn:
        conn.execute(text("UPDATE battles SET expires_at = now()"))


def test_a_retracted_vote_does_not_free_its_sealed_battle(
    client: Client, keys: dict[str, str], database: Database, ask: Post, cast: Post
) -> None:
    """The answer to the vote has named the models."""
    offered, review = ask().json(), bearer(keys["review"])
    first = cast(offered["token"], "left").json()["id"]
    retracted = client.post(f"{VOTES}/{first}/retract", json={"reason": "a misclick"}, headers=review)
    assert retracted.status_code == 201
    for _ in range(2):
        for winner in ("right", "left"):
            again = cast(offered["token"], winner)
            assert (problem(again), again.json()["id"]) == ((409, "vote-conflict"), first)
            assert not {"left", "right"} & again.json().keys()
        expire(database)
    path = f"/api/v1/retractions/{retracted.json()['id']}/withdraw"
    assert client.post(path, json={"reason": "it was right"}, headers=review).status_code == 200
    assert cast(offered["token"], "left").json()["id"] == first, "it counts again"
    assert problem(cast(offered["token"], "right")) == (409, "vote-conflict")


def test_a_sealed_battle_from_the_draw_to_the_reveal(
    client: Client, keys: dict[str, str], database: Database, ask: Post, cast: Post
) -> None:
    answer = ask(tags=["english", 'a "quoted" \\ tag'])
    offered = answer.json()
    assert answer.status_code == 201
    assert offered.keys() == {"battle_id", "left", "right", "token", "expires_at"}
    shown = client.get(f"{BATTLES}/{offered['battle_id']}", headers=bearer(keys["review"])).json()
    wait = datetime.fromisoformat(offered["expires_at"]) - datetime.fromisoformat(shown["created_at"])
    assert wait.total_seconds() == 3600
    assert shown | {
        "state": "open", "annotator": "ann", "left": offered["left"], "right": offered["right"], "drawn_by": "uniform",
        "candidates": 4, "candidate_names": ["a", "b", "c", "d"], "tags": ["english", 'a "quoted" \\ tag'],
        "propensity": pytest.approx(1 / 6), "vote_id": None, "skip_reason": None, "snapshot_id": None,
        "policy_version": 1,
    } == shown  # fmt: skip
    reveal = cast(offered["token"], "right")
    assert reveal.status_code == 201
    sides = {"left": offered["left"], "right": offered["right"]}
    assert reveal.json() == {"id": reveal.json()["id"], "status": "created", **sides}
    again = cast(offered["token"], "right")
    assert (again.status_code, again.json()) == (200, {"id": reveal.json()["id"], "status": "duplicate", **sides})
    other = cast(offered["token"], "left")
    assert problem(other) == (409, "vote-conflict")
    assert other.json()["id"] == reveal.json()["id"]
    assert not {"left", "right"} & other.json().keys()
    vote = client.get(f"{VOTES}/{reveal.json()['id']}", headers=bearer(keys["review"])).json()
    assert (vote["model_a"], vote["model_b"]) == (offered["left"], offered["right"])
    assert (vote["winner"], vote["annotator"], vote["tags"]) == ("model_b", "ann", ["english", 'a "quoted" \\ tag'])
    assert (vote["battle_id"], vote["sealed"]) == (offered["battle_id"], True)
    shown = client.get(f"{BATTLES}/{offered['battle_id']}", headers=bearer(keys["review"])).json()
    assert (shown["state"], shown["vote_id"]) == ("voted", vote["id"])
    assert shown["ended_at"] == vote["received_at"]
    with database.read() as conn:
        assert conn.execute(text("SELECT count(*) FROM votes")).scalar_one() == 1


def test_every_word_of_a_verdict_is_stored_as_meant(
    client: Client, keys: dict[str, str], ask: Post, cast: Post
) -> None:
    words = {"left": "model_a", "right": "model_b", "tie": "tie", "bothbad": "tie (bothbad)"}
    for word, stored in words.items():
        vote_id = cast(ask().json()["token"], word).json()["id"]
        assert client.get(f"{VOTES}/{vote_id}", headers=bearer(keys["review"])).json()["winner"] == stored


def test_a_token_that_may_not_vote(
    client: Client, keys: dict[str, str], database: Database, ask: Post, cast: Post
) -> None:
    offered, other = ask().json(), ask("bob").json()
    bound = client.post("/api/v1/keys/tokens", json={"annotator": "bob"}, headers=bearer(keys["ingest"])).json()
    token = offered["token"]
    assert problem(cast(token, annotator="bob")) == (403, "foreign-annotator")
    assert problem(cast(token, annotator="unheard of")) == (403, "foreign-annotator")
    assert problem(cast(token, headers=bearer(bound["token"]))) == (403, "foreign-annotator")
    assert problem(cast(token, headers=bearer(bound["token"]), annotator="ann")) == (403, "foreign-annotator")
    assert problem(cast(token, headers=bearer(bound["token"]), annotator="bob")) == (403, "foreign-annotator")
    assert problem(cast(token[:-1] + ("A" if token[-1] != "A" else "B"))) == (422, "forged-token")
    assert problem(cast(token, "model_a")) == (422, "invalid")
    assert problem(cast(token, battle_id="x")) == (422, "invalid")
    assert problem(cast(token, headers=bearer(keys["read"]))) == (403, "scope-missing")
    assert problem(cast(token, headers={"Authorization": "Basic x"})) == (401, "not-authenticated")
    assert problem(client.post(VOTES, json={"winner": "left"})) == (401, "not-authenticated")
    assert problem(client.post(VOTES, json={"token": token, "winner": "x" * 5000})) == (401, "not-authenticated")
    assert problem(cast(tokens_of(database).issue(new_id()))) == (404, "not-found")
    assert cast(other["token"], headers=bearer(bound["token"]), annotator="bob").status_code == 201
    expire(database)
    assert problem(cast(token)) == (410, "battle-expired")
    assert cast(other["token"]).status_code == 200  # what was cast in time stays cast
    with database.read() as conn:
        assert conn.execute(text("SELECT count(*) FROM votes")).scalar_one() == 1


def test_a_skipped_battle_takes_no_vote(
    client: Client, keys: dict[str, str], database: Database, ask: Post, cast: Post
) -> None:
    by_token, by_key, voted, late = (ask().json() for _ in range(4))

    def skip(offered: dict[str, str], body: dict[str, str], key: str | None = None) -> Response:
        headers = bearer(keys[key]) if key else {}
        return client.post(f"{BATTLES}/{offered['battle_id']}/skip", json=body, headers=headers)

    leaked = {"reason": "identity_leaked", "token": by_token["token"]}
    answer = skip(by_token, leaked)
    assert (answer.status_code, answer.json()["skip_reason"]) == (200, "identity_leaked")
    assert answer.json().keys() == {"battle_id", "skip_reason", "ended_at"}  # the models stay sealed
    assert skip(by_token, {"reason": "skip"}, "ingest").json() == answer.json()
    assert skip(by_key, {"reason": "failed"}, "ingest").status_code == 200
    for offered in (by_token, by_key):
        assert problem(cast(offered["token"])) == (409, "battle-skipped")
    cast(voted["token"])
    assert problem(skip(voted, {"reason": "skip"}, "ingest")) == (409, "battle-voted")
    assert problem(skip(late, leaked)) == (422, "forged-token")
    assert problem(skip(late, {"reason": "skip", "token": "made up"})) == (422, "forged-token")
    assert problem(skip(late, {"reason": "skip"})) == (401, "not-authenticated")
    assert problem(skip(late, {"reason": "skip"}, "read")) == (403, "scope-missing")
    assert problem(skip(late, {"reason": "bored"}, "ingest")) == (422, "invalid")
    assert problem(skip({"battle_id": str(new_id())}, {"reason": "skip"}, "ingest")) == (404, "not-found")
    expire(database)
    assert problem(skip(late, {"reason": "skip"}, "ingest")) == (410, "battle-expired")

    def listed(**query: str) -> list[str]:
        page = client.get(BATTLES, params={"limit": 3, **query}, headers=bearer(keys["review"])).json()
        found = [one["battle_id"] for one in page["items"]]
        return found + (listed(**query, cursor=page["next_cursor"]) if page["next_cursor"] else [])

    ids = [one["battle_id"] for one in (late, voted, by_key, by_token)]
    assert listed() == listed(annotator="ann") == ids
    by_state = [listed(state=state) for state in ("expired", "voted", "skipped", "open")]
    assert by_state == [ids[:1], ids[1:2], ids[2:], []]
    ask("bob")
    assert len(listed(annotator="bob", state="open")) == 1
    review = bearer(keys["review"])
    assert problem(client.get(BATTLES, params={"annotator": "eve"}, headers=review)) == (404, "not-found")
    assert problem(client.get(f"{BATTLES}/{new_id()}", headers=review)) == (404, "not-found")


def test_who_can_be_drawn(
    client: Client, keys: dict[str, str], database: Database, add_models: Callable[..., None]
) -> None:
    def ask(**fields: Any) -> Response:
        return client.post(BATTLES, json={"annotator": "ann", **fields}, headers=bearer(keys["ingest"]))

    add_models("a")
    assert problem(ask()) == (409, "too-few-models")
    add_models("b", "c", "gone")
    with database.begin() as conn:
        conn.execute(text("UPDATE models SET archived_at = now() WHERE name = 'gone'"))
        conn.execute(
            text(
                "INSERT INTO model_aliases (id, name, model_id, created_by)"
                " SELECT gen_random_uuid(), 'old a', id, 'a test' FROM models WHERE name = 'a'"
            )
        )
    drawn = {frozenset((one["left"], one["right"])) for one in (ask().json() for _ in range(3))}
    assert drawn == {frozenset("ab"), frozenset("ac"), frozenset("bc")}  # no pair comes again before it must
    listed = ask(candidates=["c", "old a"]).json()
    assert {listed["left"], listed["right"]} == {"a", "c"}
    refused = ask(candidates=["a", "gone", "unknown"])
    assert problem(refused) == (422, "invalid")
    assert [error["pointer"] for error in refused.json()["errors"]] == ["/candidates/1", "/candidates/2"]
    assert problem(ask(candidates=["a", "old a"])) == (422, "invalid")
    assert problem(ask(candidates=["a"])) == (422, "invalid")
    assert problem(ask(annotator=" ")) == (422, "invalid")
    with database.read() as conn:
        sets = conn.execute(text("SELECT count(*), count(DISTINCT model_ids) FROM candidate_sets")).one()
        names = set(conn.execute(text("SELECT name FROM models")).scalars())
    assert tuple(sets) == (2, 2)
    assert names == {"a", "b", "c", "gone"}  # asking adds none


def test_the_same_request_with_its_key_gets_the_first_battle(client: Client, keys: dict[str, str], ask: Post) -> None:
    key = {"Idempotency-Key": "one"}
    first, again = ask(headers=key), ask(headers=key)
    assert (again.status_code, again.json()) == (201, first.json())
    assert again.headers["Idempotency-Replayed"] == "true"
    assert problem(ask("bob", headers=key)) == (422, "idempotency-key-reused")
    assert ask().json()["battle_id"] != first.json()["battle_id"]
    refused = ask(headers={"Idempotency-Key": "two"}, candidates=["a", "?"])
    assert problem(refused) == (422, "invalid")
    assert ask(headers={"Idempotency-Key": "two"}).status_code == 201  # a refusal is not stored


def test_an_erased_annotator_s_open_battles_expire(
    client: Client, keys: dict[str, str], database: Database, ask: Post, cast: Post
) -> None:
    voted, open_one = ask().json(), ask().json()
    cast(voted["token"])
    erased = client.post("/api/v1/annotators/ann/erase", json={"reason": "asked to"}, headers=bearer(keys["admin"]))
    assert erased.status_code == 200
    assert problem(cast(open_one["token"])) == (410, "battle-expired")
    assert cast(voted["token"]).status_code == 200
    shown = client.get(f"{BATTLES}/{voted['battle_id']}", headers=bearer(keys["review"])).json()
    assert (shown["annotator_id"], shown["state"]) == (erased.json()["id"], "voted")
    assert shown["annotator"].startswith("erased_")


def mutated(token: str, count: int) -> set[str]:
    """Return texts that differ from the token in one or two places."""
    draw, alphabet, forged = random.Random(7), string.ascii_letters + string.digits + "-_=+/ é", set()  # noqa: S311
    for _ in range(count):
        letters = list(token)
        for place in draw.sample(range(len(token)), draw.randint(1, 2)):
            letters[place] = draw.choice(alphabet)
        forged.add("".join(letters))
    return forged - {token}


def test_mutated_tokens_are_refused_without_the_database(
    database: Database, ask: Post, cast: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = ask().json()["token"]
    with monkeypatch.context() as blocked:
        blocked.setattr(Database, "begin", None)
        blocked.setattr(Database, "read", None)
        for forged in mutated(token, 60):  # an address without a key may ask 100 times at once
            assert problem(cast(forged)) == (422, "forged-token")
    with database.read() as conn:
        assert conn.execute(text("SELECT count(*) FROM votes")).scalar_one() == 0
    assert cast(token).status_code == 201


def test_mutated_tokens_never_count() -> None:
    tokens, other = BattleTokens(b"s" * 32), BattleTokens(b"t" * 32)
    battle_id = new_id()
    token = tokens.issue(battle_id)
    assert tokens.verify(token) == battle_id
    forged = {other.issue(battle_id), token + "=", token[:-1], "", token + "A", token.swapcase(), token[:22] * 2}
    forged |= mutated(token, 10_000)
    for one in forged:
        with pytest.raises(ForgedTokenError):
            tokens.verify(one)
