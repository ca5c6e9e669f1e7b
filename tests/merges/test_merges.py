"""Models merged into others: votes keep their names, and count for another model."""

import itertools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from httpx import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select, text

from app.battles.roster import Rosters
from app.database.engine import Database
from app.database.tables import audit_log
from app.models.contestants import ALWAYS, Contestants, Rule
from app.refits.load import load_fit_input
from app.refits.reproduce import reproduce
from app.snapshots.queries import newest_snapshot
from app.snapshots.vote_sets import anything_new_since

Ask = Callable[..., Any]

_MISSPELL = """
    INSERT INTO models (name) VALUES ('Model 1');
    UPDATE votes SET model_a_id = (SELECT id FROM models WHERE name = 'Model 1')
    WHERE model_a_id = (SELECT id FROM models WHERE name = 'model 1');
"""


@pytest.fixture
def misspell(database: Database) -> Callable[[], None]:
    """Let the votes with model 1 on the left be recorded as `Model 1`."""

    def move() -> None:
        with database.begin() as conn:
            conn.execute(text(_MISSPELL))

    return move


@pytest.fixture
def merge(ask: Ask) -> Callable[..., Any]:
    """Merge a model into another and return it."""

    def send(model: str, into: str, **rest: str) -> Any:
        response = ask("POST", f"/models/{model}/merge", json={"into": into, **rest})
        assert response.status_code == 200, response.text
        return response.json()

    return send


def board(ask: Ask) -> dict[str, Any]:
    """The leaderboard's figures by model."""
    rows = ask("GET", "/leaderboard").json()["models"]
    return {row["model"]: {name: row[name] for name in ("score", "lower", "upper", "rank", "votes")} for row in rows}


def test_a_misspelt_model_counts_for_the_other(
    ask: Ask, crowd: list[str], refit: Ask, merge: Ask, misspell: Ask, database: Database
) -> None:
    refit()
    whole = board(ask)
    misspell()
    refit()
    apart = board(ask)
    assert apart.keys() == {*whole, "Model 1"}
    assert merge("Model 1", "model 1", reason="two spellings")["merged_into"] == "model 1"
    with database.read() as conn:
        newest = newest_snapshot(conn)
        assert newest is not None
        assert anything_new_since(conn, newest["vote_set"]), "a merge makes a refit due"
    refit()
    assert board(ask) == whole
    pairs = ask("GET", "/matchups?limit=200").json()["items"]
    assert "Model 1" not in {pair[side] for pair in pairs for side in ("model_a", "model_b")}
    assert ask("POST", "/models/Model 1/unmerge", json={}).json()["merged_into"] is None
    refit()
    assert board(ask) == apart
    for number in ("2", "3", "4"):
        made = reproduce(database, number)
        assert (made.same_votes, made.largest_difference) == (True, 0.0), made.differences


def test_votes_between_the_names_count_for_neither(
    ask: Ask, crowd: list[str], refit: Ask, merge: Ask, vote: Ask, database: Database
) -> None:
    merge("model 0", "model 1")
    vote()
    refit()
    snapshot = ask("GET", "/snapshots/1").json()
    account = snapshot["diagnostics"]["votes"]
    between = account["same_model"]
    assert between > 0
    assert account["read"] == 14 * 120 + 1 == account["used"] + account["pending"] + account["excluded"] + between
    with database.read() as conn:
        assert load_fit_input(conn).same_model == between
    listed = ask("GET", "/annotators/honest 0/votes?limit=1").json()["items"][0]
    assert (listed["model_a"], listed["model_b"], listed["chance"]) == ("model 0", "model 1", None)


def test_what_reviewers_see_counts_for_the_other_model(ask: Ask, crowd: list[str], refit: Ask, merge: Ask) -> None:
    refit()
    before = ask("GET", "/annotators/honest 0").json()["evidence"]
    merge("model 0", "model 1")
    assert ask("GET", "/annotators/honest 0").json()["evidence"] == before, "as the published leaderboard counted"
    refit()
    after = ask("GET", "/annotators/honest 0").json()["evidence"]
    votes = {one["model"]: one["votes"] for one in before["models"]}
    assert "model 0" not in {one["model"] for one in after["models"]}
    (merged,) = [one["votes"] for one in after["models"] if one["model"] == "model 1"]
    assert votes["model 1"] < merged < votes["model 0"] + votes["model 1"]
    assert ask("GET", "/annotators/honest 0").json()["votes_summary"]["models"] == 5
    assert ask("GET", "/annotators/honest 0/impact").json()["models"][0]["model"] != "model 0"


def test_a_merged_model_s_page_is_the_other_s(
    ask: Ask, client: Client, crowd: list[str], refit: Ask, merge: Ask
) -> None:
    ask("POST", "/models/model 0/aliases", json={"name": "zero"})
    merge("zero", "model 1")
    refit()
    for name in ("zero", "model 0", "model 1"):
        found = ask("GET", f"/models/{name}").json()
        assert (found["name"], found["merged"], found["merged_into"]) == ("model 1", ["model 0"], None)
    moved = client.get("/models/model%200", follow_redirects=False)
    assert (moved.status_code, moved.headers["location"]) == (307, "/models/model%201")
    assert "with the votes on model 0" in client.get("/models/model%201").text
    assert [one["merged_into"] for one in ask("GET", "/models?limit=2").json()["items"]] == ["model 1", None]


def test_battles_leave_a_merged_model_out(ask: Ask, crowd: list[str], merge: Ask, database: Database) -> None:
    merge("model 0", "model 1")
    roster = Rosters(database).current()
    names = {name: number for number, name in roster.names.items()}
    assert names["model 0"] not in roster.active
    assert names["model 1"] in roster.active
    refused = ask("POST", "/battles", json={"annotator": "x", "candidates": ["model 0", "model 2"]})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/candidates/0")


def test_merges_are_said_once_and_lead_in_no_circle(ask: Ask, crowd: list[str], merge: Ask, database: Database) -> None:
    merge("model 0", "model 1", reason="spelling")
    assert merge("model 0", "model 1")["merged_into"] == "model 1", "asked again"
    for model, into in (("model 0", "model 2"), ("model 1", "model 0"), ("model 1", "model 1")):
        assert ask("POST", f"/models/{model}/merge", json={"into": into}).status_code == 409
    merge("model 1", "model 2")
    merge("model 3", "model 0")
    assert ask("POST", "/models/model 2/merge", json={"into": "model 3"}).status_code == 409
    assert ask("GET", "/models/model 3").json()["name"] == "model 2", "by way of 0 and 1"
    for _ in range(2):
        assert ask("POST", "/models/model 1/unmerge", json={"reason": "wrong"}).status_code == 200
    assert ask("GET", "/models/model 3").json()["name"] == "model 1"
    with database.read() as conn:
        entries = conn.execute(select(audit_log.c.action, audit_log.c.subject, audit_log.c.detail).order_by("number"))
        said = [(action, subject) for action, subject, _ in entries if action.startswith("model.")]
    assert said == [
        ("model.merge", "model 0"),
        ("model.merge", "model 1"),
        ("model.merge", "model 3"),
        ("model.unmerge", "model 1"),
    ]


def test_who_may_merge_what(ask: Ask, crowd: list[str]) -> None:
    for path, body in (("merge", {"into": "model 1"}), ("unmerge", {})):
        assert ask("POST", f"/models/model 0/{path}", json=body, scope=None).status_code == 401
        assert ask("POST", f"/models/model 0/{path}", json=body, scope="review").status_code == 403
        assert ask("POST", f"/models/nothing/{path}", json=body).status_code == 404
    assert ask("POST", "/models/model 0/merge", json={"into": "nothing"}).status_code == 404
    assert ask("POST", "/models/model 0/merge", json={}).status_code == 422


_SPREAD = """
    UPDATE votes SET voted_at = CASE
        WHEN model_a_id = (SELECT id FROM models WHERE name = 'model 1') THEN timestamptz '2026-01-31 23:59Z'
        ELSE timestamptz '2026-02-01 00:00Z' END
"""


def test_a_changed_model_is_two(
    ask: Ask, crowd: list[str], refit: Ask, misspell: Ask, database: Database, client: Client
) -> None:
    with database.begin() as conn:
        conn.execute(text(_SPREAD))
    change = {"at": "2026-02-01T00:00:00Z", "reason": "new weights"}
    said = {"model": "model 1", "changed_at": "2026-02-01T00:00:00Z", "before": "model 1 (before 2026-02-01)"}
    for _ in range(2):
        marked = ask("POST", "/models/model 1/changed", json=change)
        assert (marked.status_code, marked.json()) == (200, said)
    refit()
    split = board(ask)
    assert said["before"] in split
    assert ask("GET", "/models/model 1").json()["versions"] == [said]
    assert said["before"] in client.get("/models/model%201").text
    roster = Rosters(database).current()
    assert said["before"] not in {roster.names[number] for number in roster.active}
    assert ask("POST", "/models/model 1/unchanged", json=change).status_code == 200
    assert ask("GET", "/models/model 1").json()["versions"] == []
    misspell()
    refit()
    apart = board(ask)
    apart[said["before"]] = apart.pop("Model 1")
    assert apart.keys() == split.keys()
    for model, figures in split.items():
        assert figures == pytest.approx(apart[model]), model


def test_a_time_of_change_is_checked(ask: Ask, crowd: list[str], merge: Ask) -> None:
    def mark(at: str, model: str = "model 1") -> Any:
        return ask("POST", f"/models/{model}/changed", json={"at": at})

    assert mark("2199-01-01T00:00:00Z").status_code == 422
    assert mark("2026-02-01T12:30:00+01:00").json()["before"] == "model 1 (before 2026-02-01 11:30:00)"
    assert mark("2026-02-01T00:00:00Z", "nothing").status_code == 404
    ask("POST", "/models", json={"name": "model 1 (before 2026-03-01)"})
    assert mark("2026-03-01T00:00:00Z").status_code == 409
    gone = {"at": "2026-02-01T11:30:00Z"}
    assert ask("POST", "/models/model 1/unchanged", json=gone).status_code == 200
    merge("model 1 (before 2026-02-01 11:30:00)", "model 1")
    assert mark(gone["at"]).status_code == 409, "a circle"
    for path in ("changed", "unchanged"):
        assert ask("POST", f"/models/model 1/{path}", json=gone, scope="review").status_code == 403


_TIMES = [datetime(2026, month, 1, tzinfo=UTC) for month in (1, 2, 3)]


def twin_of_contestant(rules: dict[int, dict[datetime, int]], model: int, cast_at: datetime) -> int:
    """Follow the earliest rule that covers the time, until there is none."""
    covering = [before for before in rules.get(model, {}) if cast_at < before]
    return twin_of_contestant(rules, rules[model][min(covering)], cast_at) if covering else model


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # it only reads
@given(
    drawn=st.dictionaries(
        st.integers(1, 4),
        st.dictionaries(st.sampled_from([*_TIMES, ALWAYS]), st.integers(1, 5), max_size=3),
        max_size=4,
    )
)
def test_sql_finds_the_same_contestants(database: Database, drawn: dict[int, dict[datetime, int]]) -> None:
    # Rules lead upwards alone, so in no circle.
    rules = {model: {at: into for at, into in found.items() if into > model} for model, found in drawn.items()}
    contestants = Contestants({model: sorted(Rule(*rule) for rule in found.items()) for model, found in rules.items()})
    moments = [datetime(2025, 12, 31, tzinfo=UTC), *_TIMES, datetime(2026, 4, 1, tzinfo=UTC)]
    cases = list(itertools.product(range(1, 6), moments))
    side, _ = contestants.sides_sql("v")
    rows = ", ".join(f"({model}, timestamptz '{at.isoformat()}')" for model, at in cases)
    query = (
        f"SELECT {side} FROM (VALUES {rows}) AS given (model_a_id, voted_at), "
        "LATERAL (SELECT given.*, NULL::timestamptz AS received_at, 0 AS model_b_id) AS v"
    )
    with database.read() as conn:
        found = list(conn.execute(text(query)).scalars())
    expected = [twin_of_contestant(rules, model, at) for model, at in cases]
    assert found == expected == [contestants.of(model, at) for model, at in cases]
    assert contestants.merged == {m for m in range(1, 6) if contestants.of(m, _TIMES[-1]) != m and m in rules}
