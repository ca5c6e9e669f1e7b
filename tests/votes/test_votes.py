import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from app.database.engine import Database

Ask = Callable[..., Any]

VOTE = {"model_a": "a", "model_b": "b", "winner": "model_a", "annotator": "judge", "battle_id": "battle"}
SWAPPED = {**VOTE, "model_a": "b", "model_b": "a", "winner": "model_b"}
OTHER = {**VOTE, "winner": "tie"}


def count(database: Database) -> int:
    with database.read() as conn:
        return int(conn.execute(text("SELECT count(*) FROM votes")).scalar_one())


def test_a_vote_is_created(ask: Ask, database: Database) -> None:
    whole = {**VOTE, "voted_at": "2026-01-02T03:04:05+05:00", "tags": ["coding"], "metadata": {"turn": 1}}
    whole["features"] = {"length": [120, 80.5]}
    response = ask("POST", "/votes", scope="ingest", json=whole)
    assert response.status_code == 201
    assert response.json().keys() == {"id", "status"}
    with database.read() as conn:
        row = conn.execute(text("SELECT v.*, k.name FROM votes v JOIN api_keys k ON k.id = api_key_id")).one()
    assert (str(row.id), row.name, row.tags) == (response.json()["id"], "ingest key", ["coding"])
    assert row.features == whole["features"] == ask("GET", f"/votes/{row.id}").json()["features"]
    assert row.voted_at.isoformat() == "2026-01-01T22:04:05+00:00"


def test_the_same_vote_again(ask: Ask, database: Database) -> None:
    first = ask("POST", "/votes", json=VOTE)
    for again in (VOTE, SWAPPED):
        response = ask("POST", "/votes", json=again)
        assert response.status_code == 200
        assert response.json() == {"id": first.json()["id"], "status": "duplicate"}
    assert count(database) == 1


def test_another_verdict(ask: Ask, database: Database, assert_problem: Ask) -> None:
    first = ask("POST", "/votes", json=VOTE)
    body = assert_problem(ask("POST", "/votes", json=OTHER), 409, "vote-conflict")
    assert body["id"] == first.json()["id"]
    assert count(database) == 1


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"winner": "TIE"}, "/winner"),
        ({"winner": "both_good"}, "/winner"),
        ({"winner": None}, "/winner"),
        ({"model_b": "a"}, "/model_b"),
        ({"model_a": ""}, "/model_a"),
        ({"model_a": "  "}, "/model_a"),
        ({"model_a": 7}, "/model_a"),
        ({"annotator": "x" * 501}, "/annotator"),
        ({"annotator": "nul\x00"}, "/annotator"),
        ({"battle_id": "\n"}, "/battle_id"),
        ({"voted_at": "2026-01-02T03:04:05"}, "/voted_at"),
        ({"voted_at": "0001-01-01T00:00:00+14:00"}, "/voted_at"),
        ({"voted_at": 1e300}, "/voted_at"),
        ({"tags": ["x"] * 51}, "/tags"),
        ({"tags": ["x", 1]}, "/tags/1"),
        ({"metadata": []}, "/metadata"),
        ({"metadata": {"x": "\x00"}}, "/metadata"),
        ({"weight": 2}, "/weight"),
        ({"a/b~c": 2}, "/a~1b~0c"),
    ],
)
def test_invalid_votes(ask: Ask, database: Database, assert_problem: Ask, change: dict[str, Any], pointer: str) -> None:
    body = assert_problem(ask("POST", "/votes", json={**VOTE, **change}), 422, "invalid")
    assert [error["pointer"] for error in body["errors"]] == [pointer]
    assert count(database) == 0


def test_every_error_is_reported(ask: Ask, assert_problem: Ask) -> None:
    body = assert_problem(ask("POST", "/votes", json={}), 422, "invalid")
    missing = {(error["pointer"], error["detail"]) for error in body["errors"]}
    assert missing == {(f"/{name}", "is required") for name in ("model_a", "model_b", "winner", "annotator")}


def test_fifty_at_once_are_one_vote(ask: Ask, database: Database) -> None:
    with ThreadPoolExecutor(50) as pool:
        sent = [VOTE, SWAPPED] * 25
        responses = list(pool.map(lambda vote: ask("POST", "/votes", json=vote), sent))
    assert Counter(response.status_code for response in responses) == {201: 1, 200: 49}
    assert len({response.json()["id"] for response in responses}) == 1
    assert count(database) == 1


def test_a_race_of_verdicts_has_one_winner(ask: Ask, database: Database) -> None:
    def send(i: int) -> Any:
        if i % 2:
            return ask("POST", "/votes", json=VOTE if i % 4 == 1 else OTHER)
        return ask("POST", "/votes/batch", json={"votes": [VOTE if i % 4 == 0 else OTHER]})

    with ThreadPoolExecutor(20) as pool:
        responses = list(pool.map(send, range(40)))
    fates = Counter(
        response.json()["results"][0]["status"] if "results" in response.json() else str(response.status_code)
        for response in responses
    )
    assert fates["created"] + fates["201"] == 1
    assert fates["conflict"] == fates["409"] == 10
    assert count(database) == 1


def test_a_batch(ask: Ask, database: Database) -> None:
    votes = [VOTE, SWAPPED, OTHER, {**VOTE, "winner": "?"}, {**VOTE, "annotator": "second"}, 7, None, [VOTE]]
    response = ask("POST", "/votes/batch", scope="ingest", json={"votes": votes})
    assert response.status_code == 200
    body = response.json()
    assert body["counts"] == {"created": 2, "duplicate": 1, "conflict": 1, "invalid": 4}
    results = body["results"]
    assert [result["index"] for result in results] == list(range(8))
    assert [result["status"] for result in results] == [
        "created", "duplicate", "conflict", "invalid", "created", "invalid", "invalid", "invalid",
    ]  # fmt: skip
    assert results[0]["id"] == results[1]["id"] == results[2]["id"] != results[4]["id"]
    assert "another verdict" in results[2]["detail"]
    assert results[3]["errors"] == [{"pointer": "/winner", "detail": results[3]["errors"][0]["detail"]}]
    assert [result["errors"] for result in results[5:]] == [[{"pointer": "", "detail": "must be an object"}]] * 3
    assert "id" not in results[3]
    assert count(database) == 2


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/votes"),
        ({"votes": []}, "/votes"),
        ({"votes": {}}, "/votes"),
        ({"votes": [VOTE] * 10_001}, "/votes"),
        ({"votes": [VOTE], "more": 1}, "/more"),
        ([VOTE], ""),
    ],
)
def test_what_is_no_batch(ask: Ask, database: Database, assert_problem: Ask, body: Any, pointer: str) -> None:
    problem = assert_problem(ask("POST", "/votes/batch", json=body), 422, "invalid")
    assert [error["pointer"] for error in problem["errors"]] == [pointer]
    assert count(database) == 0


def test_the_largest_batch(ask: Ask, database: Database) -> None:
    votes = [{**VOTE, "battle_id": f"b{i}", "annotator": f"k{i % 500}"} for i in range(10_000)]
    assert ask("POST", "/votes/batch", json={"votes": votes}).json()["counts"]["created"] == 10_000
    again = ask("POST", "/votes/batch", json={"votes": votes[::-1]})
    assert again.json()["counts"] == {"created": 0, "duplicate": 10_000, "conflict": 0, "invalid": 0}
    assert count(database) == 10_000


FATES = {
    "created": {"model_a": "a", "model_b": "b", "winner": "tie", "annotator": "new"},
    "duplicate": SWAPPED,
    "conflict": OTHER,
    "invalid": {"winner": "tie"},
}


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(fates=st.lists(st.sampled_from(sorted(FATES)), min_size=1, max_size=12))
def test_each_place_of_a_batch_has_its_own_fate(ask: Ask, fates: list[str]) -> None:
    ask("POST", "/votes", json=VOTE)
    response = ask("POST", "/votes/batch", json={"votes": [FATES[fate] for fate in fates]})
    assert response.status_code == 200
    assert [result["status"] for result in response.json()["results"]] == fates
    assert response.json()["counts"] == {fate: fates.count(fate) for fate in FATES}


@pytest.mark.parametrize("path", ["/votes", "/votes/batch"])
def test_who_may_vote(ask: Ask, database: Database, assert_problem: Ask, path: str) -> None:
    body = VOTE if path == "/votes" else {"votes": [VOTE]}
    assert_problem(ask("POST", path, scope=None, json=body), 401, "not-authenticated")
    for scope in ("read", "review"):
        assert_problem(ask("POST", path, scope=scope, json=body), 403, "scope-missing")
    # Who may not vote does not learn what is wrong with the vote.
    as_json = {"Content-Type": "application/json"}
    assert_problem(ask("POST", path, scope=None, content=b"{", headers=as_json), 401, "not-authenticated")
    assert count(database) == 0
    assert ask("POST", path, scope="admin", json=body).status_code in (200, 201)


HARMFUL = {
    "not JSON": b"votes, please",
    "empty": b"",
    "cut off": json.dumps(VOTE).encode()[:-1],
    "two values": json.dumps(VOTE).encode() * 2,
    "not UTF-8": b'{"model_a": "\xff\xfe"}',
    "nested": b"[" * 100_000,
    "nested objects": b'{"metadata":' * 40_000,
    "half a surrogate pair": b'{"model_a": "\\ud800"}',
}


@pytest.mark.parametrize("path", ["/votes", "/votes/batch"])
@pytest.mark.parametrize("content", HARMFUL.values(), ids=HARMFUL.keys())
def test_bodies_that_are_not_json(ask: Ask, assert_problem: Ask, path: str, content: bytes) -> None:
    response = ask("POST", path, content=content, headers={"Content-Type": "application/json"})
    assert_problem(response, 400, "malformed-body")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_json_does_not_know(ask: Ask, assert_problem: Ask, number: str) -> None:
    content = json.dumps({**VOTE, "metadata": {"x": [0]}}).replace("[0]", f"[{number}]")
    response = ask("POST", "/votes", content=content, headers={"Content-Type": "application/json"})
    body = assert_problem(response, 422, "invalid")
    assert [error["pointer"] for error in body["errors"]] == ["/metadata"]


def test_a_number_of_many_digits_is_no_failure(ask: Ask) -> None:
    content = json.dumps({**VOTE, "metadata": {"x": [0]}}).replace("[0]", "9" * 10_000)
    response = ask("POST", "/votes", content=content, headers={"Content-Type": "application/json"})
    assert response.status_code in (201, 400, 422)


def test_names_of_fields_are_good_values(ask: Ask) -> None:
    vote = {"model_a": "tags", "model_b": "votes", "winner": "model_b", "annotator": "winner", "battle_id": "model_a"}
    response = ask("POST", "/votes/batch", json={"votes": [vote, {**vote, "tags": ["model_b", 'a "tag"']}]})
    assert response.json()["counts"] == {"created": 1, "duplicate": 1, "conflict": 0, "invalid": 0}
