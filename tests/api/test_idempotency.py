import json
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import text

from app.api.idempotency import REPLAYED, IdempotencyClaim, IdempotencyInFlightError, run_once
from app.auth.keys import create_key
from app.database.engine import Database

Ask = Callable[..., Any]

VOTE = {"model_a": "a", "model_b": "b", "winner": "model_a", "annotator": "judge"}
IN_BATTLE = {**VOTE, "battle_id": "battle"}
BODIES = {"/votes": VOTE, "/votes/batch": {"votes": [VOTE, {**VOTE, "winner": "?"}, IN_BATTLE]}}


def count(database: Database) -> int:
    with database.read() as conn:
        return int(conn.execute(text("SELECT count(*) FROM votes")).scalar_one())


def send(ask: Ask, path: str, body: Any, key: str, **rest: Any) -> Any:
    return ask("POST", path, json=body, headers={"Idempotency-Key": key}, **rest)


@pytest.mark.parametrize("path", BODIES)
def test_a_request_sent_again_is_answered_not_done_again(ask: Ask, database: Database, path: str) -> None:
    first = send(ask, path, BODIES[path], '"k1"')
    recorded = count(database)
    assert "idempotency-replayed" not in first.headers
    for form in ('"k1"', "k1"):
        again = send(ask, path, BODIES[path], form)
        assert (again.status_code, again.content) == (first.status_code, first.content)
        assert again.headers["idempotency-replayed"] == "true"
        assert again.headers["content-type"] == first.headers["content-type"]
    assert count(database) == recorded > 0
    assert send(ask, path, BODIES[path], "k2").json() != first.json()  # a vote without a battle is new


@pytest.mark.parametrize("path", BODIES)
def test_a_key_belongs_to_one_request(ask: Ask, database: Database, assert_problem: Ask, path: str) -> None:
    send(ask, path, BODIES[path], "k")
    recorded = count(database)
    other = {**VOTE, "annotator": "other"} if path == "/votes" else {"votes": [VOTE]}
    assert_problem(send(ask, path, other, "k"), 422, "idempotency-key-reused")
    elsewhere = next(each for each in BODIES if each != path)
    assert_problem(send(ask, elsewhere, BODIES[elsewhere], "k"), 422, "idempotency-key-reused")
    assert count(database) == recorded
    assert send(ask, path, BODIES[path], "k").headers["idempotency-replayed"] == "true"


def test_a_conflict_is_kept_as_it_was_answered(ask: Ask, database: Database, assert_problem: Ask) -> None:
    ask("POST", "/votes", json=IN_BATTLE)
    conflict = send(ask, "/votes", {**IN_BATTLE, "winner": "tie"}, "k")
    assert_problem(conflict, 409, "vote-conflict")
    again = send(ask, "/votes", {**IN_BATTLE, "winner": "tie"}, "k")
    assert (again.status_code, again.content) == (409, conflict.content)
    assert again.headers["content-type"] == "application/problem+json"
    assert count(database) == 1


def test_a_duplicate_is_kept_too(ask: Ask) -> None:
    first = ask("POST", "/votes", json=IN_BATTLE)
    for _ in range(2):
        again = send(ask, "/votes", IN_BATTLE, "k")
        assert (again.status_code, again.json()) == (200, {"id": first.json()["id"], "status": "duplicate"})


def test_what_was_refused_may_be_mended_under_the_same_key(ask: Ask, assert_problem: Ask) -> None:
    assert_problem(send(ask, "/votes", {**VOTE, "winner": "?"}, "k"), 422, "invalid")
    assert_problem(send(ask, "/votes", {**VOTE, "annotator": " "}, "k"), 422, "invalid")
    assert send(ask, "/votes", VOTE, "k").status_code == 201


def test_keys_of_different_api_keys_are_different(ask: Ask, database: Database) -> None:
    first = send(ask, "/votes", VOTE, "k", scope="ingest")
    second = send(ask, "/votes", VOTE, "k", scope="admin")
    assert (first.status_code, second.status_code) == (201, 201)
    assert count(database) == 2


@pytest.mark.parametrize("key", ["", '""', "x" * 256, '"open', 'in"side', "spa ce", "ta\tb", '"back\\slash"'])
def test_what_is_no_key(ask: Ask, database: Database, assert_problem: Ask, key: str) -> None:
    body = assert_problem(send(ask, "/votes", VOTE, key), 422, "invalid")
    assert [error["pointer"] for error in body["errors"]] == ["/Idempotency-Key"]
    assert count(database) == 0


def test_two_keys_are_none(ask: Ask, client: Any, keys: dict[str, str], assert_problem: Ask) -> None:
    headers = [("Authorization", f"Bearer {keys['ingest']}"), ("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
    assert_problem(client.post("/api/v1/votes", json=VOTE, headers=headers), 422, "invalid")


@pytest.mark.parametrize("path", BODIES)
def test_fifty_at_once_are_one_request(ask: Ask, database: Database, assert_problem: Ask, path: str) -> None:
    with ThreadPoolExecutor(50) as pool:
        responses = list(pool.map(lambda _: send(ask, path, BODIES[path], "k"), range(50)))
    done = [each for each in responses if each.status_code < 400]
    for each in responses:
        if each.status_code == 503:
            assert_problem(each, 503, "database-busy")  # a machine so slow that they waited long for a connection
        elif each not in done:
            assert_problem(each, 409, "idempotency-in-flight")
    assert len({each.content for each in done}) == 1
    assert Counter("idempotency-replayed" in each.headers for each in done)[False] == 1
    assert count(database) == len(json.loads(done[0].content).get("results", [1, 2])) - 1


def test_a_key_in_use_by_another_replica(ask: Ask, database: Database, assert_problem: Ask) -> None:
    with database.begin() as conn:
        key_id = conn.execute(text("SELECT id FROM api_keys WHERE name = 'admin key'")).scalar_one()
        run_once(conn, lambda: b"{}", claim=IdempotencyClaim(key_id, "k", b"other"))
        for path, body in BODIES.items():
            assert_problem(send(ask, path, body, "k"), 409, "idempotency-in-flight")
        # A request with another key does not wait.
        assert send(ask, "/votes", VOTE, "l").status_code == 201
    assert_problem(send(ask, "/votes", VOTE, "k"), 422, "idempotency-key-reused")


def test_work_that_fails_leaves_its_key_free(database: Database) -> None:
    with database.begin() as conn:
        record, _ = create_key(conn, "k", ["ingest"])
    claim = IdempotencyClaim(record.id, "k", b"1")

    def fail() -> bytes:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), database.begin() as conn:
        run_once(conn, fail, claim=claim)
    with database.begin() as conn:
        assert run_once(conn, lambda: b"done", claim=claim).body == b"done"


def test_a_race_of_transactions_does_the_work_once(database: Database) -> None:
    with database.begin() as conn:
        record, _ = create_key(conn, "k", ["ingest"])
    barrier, done = threading.Barrier(50), list[int]()

    def work() -> bytes:
        done.append(1)
        return b"done"

    def run(_: int) -> tuple[int, bytes, bool] | None:
        with database.begin() as conn:
            barrier.wait()
            try:
                response = run_once(conn, work, claim=IdempotencyClaim(record.id, "k", b"1"))
                return response.status_code, bytes(response.body), REPLAYED in response.headers
            except IdempotencyInFlightError:
                return None

    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(run, range(50)))
    assert len(done) == 1
    assert Counter(answers)[200, b"done", False] == 1
    assert set(answers) <= {(200, b"done", False), (200, b"done", True), None}


def test_answers_are_cleared_away_when_they_are_old(ask: Ask, database: Database) -> None:
    for i in range(5):
        send(ask, "/votes", VOTE, f'"old {i}"')
    with database.begin() as conn:
        conn.execute(text("UPDATE idempotency_keys SET created_at = now() - interval '24 hours 1 minute'"))
    # Still there, still good: 24 hours are the least.
    assert send(ask, "/votes", VOTE, '"old 0"').headers["idempotency-replayed"] == "true"
    for i in range(3):
        send(ask, "/votes", VOTE, f"new{i}")
    with database.read() as conn:
        left = set(conn.execute(text("SELECT key FROM idempotency_keys")).scalars())
    assert left == {"new0", "new1", "new2"}
