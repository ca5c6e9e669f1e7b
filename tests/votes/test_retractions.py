from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import text

from app.database.engine import Database
from app.refits.schedule import due_trigger

Ask = Callable[..., Any]

VOTE = {"model_a": "ant", "model_b": "bee", "winner": "model_a", "annotator": "judge", "battle_id": "battle"}
WHY = {"reason": "a test"}


@pytest.fixture
def post_vote(ask: Ask) -> Ask:
    """Record a vote that differs from the usual one and return its id."""

    def send(*, scope: str = "admin", **changes: Any) -> str:
        response = ask("POST", "/votes", scope=scope, json={**VOTE, **changes})
        assert response.status_code == 201, response.text
        return str(response.json()["id"])

    return send


@pytest.fixture
def retract(ask: Ask) -> Ask:
    """Void votes of a target and return the retraction."""

    def send(target: str, reference: str) -> Any:
        response = ask("POST", "/retractions", scope="review", json={"target": target, "id": reference, **WHY})
        assert response.status_code == 201, response.text
        return response.json()

    return send


def voided(database: Database) -> set[str]:
    with database.read() as conn:
        assert conn.execute(text("SELECT count(*) FROM votes")).scalar_one() > 0, "votes are never deleted"
        return {str(row) for row in conn.execute(text("SELECT vote_id FROM retracted_votes")).scalars()}


def test_a_vote_is_shown_and_retracted(ask: Ask, database: Database, post_vote: Ask) -> None:
    vote_id = post_vote(tags=["coding"], metadata={"turn": 1}, voted_at="2026-01-02T03:04:05Z")
    shown = ask("GET", f"/votes/{vote_id}", scope="review").json()
    assert {name: shown[name] for name in VOTE} == VOTE
    assert (shown["id"], shown["tags"], shown["metadata"]) == (vote_id, ["coding"], {"turn": 1})
    assert (shown["retraction"], shown["replaced_by"]) == (None, None)

    first = ask("POST", f"/votes/{vote_id}/retract", scope="review", json=WHY)
    assert first.status_code == 201
    retraction = first.json()
    assert (retraction["target"], retraction["target_id"], retraction["votes"]) == ("vote", vote_id, 1)
    assert (retraction["reason"], retraction["retracted_by"]) == ("a test", "review key")
    assert ask("GET", f"/votes/{vote_id}", scope="review").json() == {**shown, "retraction": retraction}
    assert voided(database) == {vote_id}

    again = ask("POST", f"/votes/{vote_id}/retract", scope="review", json={"reason": "another"})
    assert (again.status_code, again.json()) == (200, retraction)
    assert ask("GET", "/retractions", scope="review").json()["items"] == [retraction]


def test_a_key_may_retract_what_came_with_it(ask: Ask, database: Database, post_vote: Ask) -> None:
    own = post_vote(scope="ingest")
    assert ask("POST", f"/votes/{own}/retract", scope="ingest", json=WHY).status_code == 201
    assert voided(database) == {own}


@pytest.mark.parametrize(
    ("target", "reference", "expected"),
    [
        ("battle", "b1", {"b1-k1", "b1-k2"}),
        ("annotator", "k1", {"b1-k1", "b2-k1"}),
        ("model", "bee", {"b1-k1", "b1-k2"}),
    ],
)
def test_all_votes_of_something(
    database: Database, post_vote: Ask, retract: Ask, target: str, reference: str, expected: set[str]
) -> None:
    ids = {
        "b1-k1": post_vote(battle_id="b1", annotator="k1"),
        "b1-k2": post_vote(battle_id="b1", annotator="k2", model_a="bee", model_b="ant"),
        "b2-k1": post_vote(battle_id="b2", annotator="k1", model_b="cat"),
        "none": post_vote(battle_id=None, annotator="k3", model_b="cat"),
    }
    first = retract(target, reference)
    assert first["votes"] == len(expected)
    assert voided(database) == {ids[name] for name in expected}
    assert "k1" not in first["target_id"], "who voted is named by the id, which outlives the key"
    assert retract(target, reference)["votes"] == 0, "what is void already is not counted twice"
    post_vote(battle_id="b3", annotator="k1", model_a="bee", model_b="cat")
    assert voided(database) == {ids[name] for name in expected}, "later votes count"


def test_what_overlaps_is_counted_once(database: Database, post_vote: Ask, retract: Ask) -> None:
    post_vote(battle_id="b1", annotator="k1")
    post_vote(battle_id="b2", annotator="k1")
    assert (retract("battle", "b1")["votes"], retract("annotator", "k1")["votes"]) == (1, 1)


def test_a_race_of_retractions_counts_each_vote_once(ask: Ask, post_vote: Ask) -> None:
    ids = [post_vote(battle_id=f"b{i}", annotator="k") for i in range(10)]

    def send(i: int) -> Any:
        if i % 2:
            return ask("POST", f"/votes/{ids[i % 10]}/retract", json=WHY)
        return ask("POST", "/retractions", json={"target": "annotator", "id": "k", **WHY})

    with ThreadPoolExecutor(10) as pool:
        assert {response.status_code for response in pool.map(send, range(30))} <= {200, 201}
    assert sum(one["votes"] for one in ask("GET", "/retractions").json()["items"]) == len(ids)


def test_the_next_refit_is_without_them_and_due_for_them(
    ask: Ask, database: Database, crowd: list[str], refit: Ask, retract: Ask, change_policy: Ask
) -> None:
    change_policy(refit_interval_seconds=1)
    refit()
    with database.begin() as conn:
        conn.execute(text("UPDATE refits SET finished_at = finished_at - interval '1 hour'"))
    with database.read() as conn:
        assert not due_trigger(conn)
    assert retract("annotator", crowd[0])["votes"] == 120
    with database.read() as conn:
        assert due_trigger(conn)
    board = ask("GET", "/leaderboard").json()
    assert (board["snapshot"]["votes_used"], board["votes_not_in_board"]) == (14 * 120, 0)
    refit()
    after = ask("GET", "/leaderboard").json()["snapshot"]
    assert after["votes_used"] == 13 * 120


def test_retractions_page_by_page(ask: Ask, post_vote: Ask, retract: Ask) -> None:
    made = [retract("vote", post_vote(battle_id=f"b{i}")) for i in range(5)][::-1]
    first = ask("GET", "/retractions?limit=3").json()
    rest = ask("GET", f"/retractions?limit=3&cursor={first['next_cursor']}").json()
    assert (first["items"] + rest["items"], rest["next_cursor"]) == (made, None)


def test_retractions_are_in_the_audit_log(ask: Ask, post_vote: Ask, retract: Ask) -> None:
    vote_id = post_vote()
    retract("battle", "battle")
    entry = ask("GET", "/audit").json()["items"][0]
    assert (entry["action"], entry["detail"]["votes"]) == ("votes.retract.battle", 1)
    assert vote_id not in str(entry)


def test_what_is_refused(ask: Ask, database: Database, post_vote: Ask, assert_problem: Ask) -> None:
    vote_id = post_vote()
    foreign = ask("POST", f"/votes/{vote_id}/retract", scope="ingest", json=WHY)
    assert "another key" in assert_problem(foreign, 403, "scope-missing")["detail"]
    for body in ({}, {"reason": " "}, {"reason": "x", "more": 1}, {"reason": "nul \x00"}):
        assert_problem(ask("POST", f"/votes/{vote_id}/retract", json=body), 422, "invalid")
    assert_problem(ask("POST", "/votes/nothing/retract", json=WHY), 422, "invalid")
    assert_problem(ask("GET", "/votes/nothing"), 422, "invalid")
    assert_problem(ask("POST", f"/votes/{uuid4()}/retract", json=WHY), 404, "not-found")
    assert_problem(ask("GET", f"/votes/{uuid4()}"), 404, "not-found")
    for target, reference in (
        ("vote", str(uuid4())), ("vote", "battle"), ("battle", "nothing"), ("battle", "nul \x00"), ("model", "nothing"),
        ("model", " "), ("annotator", "nobody"), ("annotator", str(uuid4())),
    ):  # fmt: skip
        response = ask("POST", "/retractions", json={"target": target, "id": reference, **WHY})
        assert_problem(response, 404, "not-found")
    for target, reference in (("snapshot", "x"), ("model", ""), ("model", "x" * 501)):
        response = ask("POST", "/retractions", json={"target": target, "id": reference, **WHY})
        assert_problem(response, 422, "invalid")
    assert_problem(ask("GET", "/retractions?cursor=WzFd"), 422, "invalid")
    assert voided(database) == set()


def test_a_replaced_vote_has_nothing_to_retract(
    ask: Ask, database: Database, post_vote: Ask, assert_problem: Ask
) -> None:
    old, new = post_vote(battle_id="b1"), post_vote(battle_id="b2")
    with database.begin() as conn:
        row = text("INSERT INTO retracted_votes (vote_id, replaced_by) VALUES (:old, :new)")
        conn.execute(row, {"old": old, "new": new})
    assert ask("GET", f"/votes/{old}").json()["replaced_by"] == new
    assert_problem(ask("POST", f"/votes/{old}/retract", json=WHY), 409, "conflict")


@pytest.mark.parametrize(
    ("method", "path", "refused"),
    [
        ("GET", "/votes/{id}", ("ingest", "read")),
        ("POST", "/votes/{id}/retract", ("read",)),
        ("GET", "/retractions", ("ingest", "read")),
        ("POST", "/retractions", ("ingest", "read")),
    ],
)
def test_who_may(
    ask: Ask, database: Database, post_vote: Ask, assert_problem: Ask, method: str, path: str, refused: tuple[str, ...]
) -> None:
    path = path.format(id=post_vote())
    assert_problem(ask(method, path, scope=None), 401, "not-authenticated")
    for scope in refused:
        assert_problem(ask(method, path, scope=scope, json=WHY), 403, "scope-missing")
    assert voided(database) == set()
