"""A vote that has not named its models can be taken back; one that has stands: nobody chooses by the names."""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest
from httpx import Client
from sqlalchemy import text

from app.database.engine import Database

Ask = Callable[..., Any]
AssertProblem = Callable[..., dict[str, Any]]
KEPT = text(
    "SELECT v.sealed_battle_id FROM votes AS v WHERE NOT EXISTS (SELECT FROM retracted_votes WHERE vote_id = v.id)"
)
LATER = text("UPDATE battles SET undo_until = undo_until - interval '15 seconds'")


@pytest.mark.usefixtures("pool")
def test_a_vote_can_be_taken_back_for_some_seconds(
    ask: Ask, invite: Ask, draw: Ask, cast: Ask, undo: Ask, assert_problem: AssertProblem, database: Database
) -> None:
    token = invite()["token"]
    first, second = draw(token).json(), draw(token).json()
    assert_problem(undo(first), 409, "conflict")
    hidden = cast(first, reveal=False)
    vote = hidden.json()["id"]
    assert (hidden.status_code, hidden.json()) == (201, {"id": vote, "status": "created"})
    again = cast(first, reveal=False)
    assert (again.status_code, again.json()["id"], again.json().keys() & {"left", "right"}) == (200, vote, set())
    for _ in range(2):
        assert undo(first).json() == {"battle_id": first["battle_id"], "vote_id": vote}
    assert ask("GET", f"/votes/{vote}", scope="review").json()["retraction"]["retracted_by"] == "annotator"
    assert len(ask("GET", "/retractions", scope="review").json()["items"]) == 1
    for reveal in (True, False):
        assert "left" not in assert_problem(cast(first, reveal=reveal), 409, "vote-conflict")
    assert ask("GET", "/invitations").json()["items"][0]["votes"] == 0
    cast(second, reveal=False)
    assert_problem(undo(second, token=first["token"]), 422, "forged-token")
    with database.begin() as conn:
        conn.execute(LATER)
    assert_problem(undo(second), 410, "undo-too-late")
    assert {"left", "right"} < cast(second).json().keys()


@pytest.mark.usefixtures("pool")
def test_a_vote_that_has_named_its_models_stands(
    ask: Ask, invite: Ask, draw: Ask, cast: Ask, undo: Ask, assert_problem: AssertProblem
) -> None:
    token = invite()["token"]
    at_once, later = draw(token).json(), draw(token).json()
    named = cast(at_once).json()
    assert named.keys() == {"id", "status", "left", "right"}
    assert "left" not in cast(later, reveal=False).json()
    assert cast(later).json()["status"] == "duplicate"
    for battle in (at_once, later):
        assert_problem(undo(battle), 409, "models-revealed")
        by_key = ask("POST", f"/battles/{battle['battle_id']}/undo", scope="ingest", json={})
        assert_problem(by_key, 409, "models-revealed")
    assert ask("GET", "/retractions", scope="review").json()["items"] == []


def test_who_takes_back_all_but_the_targets_wins_keeps_nothing_by_the_names(
    client: Client, ask: Ask, invite: Ask, draw: Ask, cast: Ask, undo: Ask, database: Database
) -> None:
    """The attacker wants the votes for the target alone, and uses all that an annotator is shown."""
    models, prompts = ("ash", "birch", "cedar", "target"), range(5)
    given = [{"prompt": str(p), "model": m, "answer": f"{p} {m[::-1]}"} for p in prompts for m in models]
    ask("POST", "/answers", json={"answers": given})
    token = invite(annotator="eve")["token"]
    revealed, undone = set(), 0
    for count in range(len(prompts) * len(list(combinations(models, 2)))):
        battle = draw(token).json()
        before, winner = _own(client, token), "left" if count % 3 else "right"
        answer = cast(battle, winner, reveal=bool(count % 2)).json()
        if "left" in answer:
            revealed.add(battle["battle_id"])
        else:
            assert _own(client, token) == before, "the annotator's own order says nothing of it either"
        if answer.get(winner) != "target":
            undone += undo(battle).is_success
    assert undone == len(revealed) == 15, "what could be taken back is what nothing was known of"
    with database.read() as conn:
        assert {str(one) for one in conn.execute(KEPT).scalars()} == revealed, "whatever model won"


def test_an_annotators_own_votes_say_nothing_of_one_that_can_be_taken_back(
    client: Client, ask: Ask, database: Database
) -> None:
    given = [{"prompt": p, "model": m, "answer": m} for p in "xy" for m in ("ash", "birch")]
    ask("POST", "/answers", json={"answers": given})
    token = ask("POST", "/keys/tokens", scope="ingest", json={"annotator": "bob"}).json()["token"]
    mine = {"headers": {"Authorization": f"Bearer {token}"}, "params": {"annotator": "bob"}}
    battle = client.post("/api/v1/battles", json={"annotator": "bob"}, headers=mine["headers"]).json()
    body = {"token": battle["token"], "winner": "left", "reveal": False}
    vote = client.post("/api/v1/votes", json=body).json()["id"]
    assert client.get("/api/v1/annotators/me/votes", **mine).json()["items"] == []
    assert client.get("/api/v1/annotators/me", **mine).json()["votes_summary"]["models"] == 0
    with database.begin() as conn:
        conn.execute(LATER)
    (shown,) = client.get("/api/v1/annotators/me/votes", **mine).json()["items"]
    assert shown["id"] == vote


def _own(client: Client, token: str) -> Any:
    shown = client.get("/api/v1/annotators/me/order", headers={"Authorization": f"Bearer {token}"})
    assert shown.status_code == 200
    return shown.json()
