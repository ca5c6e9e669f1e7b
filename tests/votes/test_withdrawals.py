"""A retracted vote frees its battle, and a retraction can be taken back."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import select, text

from app.database.engine import Database
from app.database.tables import votes
from app.imports.local import import_file
from app.imports.service import ImportOptions
from app.refits.reproduce import reproduce
from app.snapshots.vote_sets import is_retracted
from app.votes import repeats

Ask = Callable[..., Any]

VOTE = {"model_a": "ant", "model_b": "bee", "winner": "model_a", "annotator": "judge", "battle_id": "battle"}
OTHER = {**VOTE, "winner": "model_b"}
WHY = {"reason": "a misclick"}


@pytest.fixture
def post(ask: Ask) -> Ask:
    """Record a vote and return its id."""

    def send(vote: dict[str, Any] = VOTE, **changes: Any) -> str:
        response = ask("POST", "/votes", json={**vote, **changes})
        assert response.status_code == 201, response.text
        assert response.json().keys() == {"id", "status"}
        return str(response.json()["id"])

    return send


@pytest.fixture
def retract(ask: Ask) -> Ask:
    """Retract one vote, or the votes of a target, and return the retraction's id."""

    def send(reference: str, target: str = "vote") -> str:
        response = ask("POST", "/retractions", scope="review", json={"target": target, "id": reference, **WHY})
        assert response.status_code == 201, response.text
        return str(response.json()["id"])

    return send


@pytest.fixture
def withdraw(ask: Ask) -> Ask:
    """Take back a retraction."""

    def send(retraction_id: str) -> Any:
        return ask("POST", f"/retractions/{retraction_id}/withdraw", scope="review", json={"reason": "it was right"})

    return send


@pytest.fixture
def counting(database: Database) -> Callable[[], set[str]]:
    """Return the votes that count."""

    def read() -> set[str]:
        with database.read() as conn:
            return {str(id_) for id_ in conn.execute(select(votes.c.id).where(~is_retracted(votes.c.id))).scalars()}

    return read


@pytest.mark.parametrize("on_conflict", ["reject", "replace"])
@pytest.mark.parametrize("again", [VOTE, OTHER])
def test_a_retracted_vote_frees_its_battle(
    ask: Ask, change_policy: Ask, post: Ask, retract: Ask, on_conflict: str, again: dict[str, Any], counting: Ask
) -> None:
    change_policy(on_conflict=on_conflict)
    first = post()
    retract(first)
    second = post(again)
    assert counting() == {second}
    assert ask("POST", "/votes", json=again).json() == {"id": second, "status": "duplicate"}
    retract(second)
    batch = ask("POST", "/votes/batch", json={"votes": [OTHER, OTHER, VOTE]}).json()["results"]
    replaced = on_conflict == "replace"
    assert [result["status"] for result in batch] == ["created", "duplicate", "created" if replaced else "conflict"]
    assert "replaces" not in batch[0]
    assert counting() == {batch[2 if replaced else 0]["id"]}


def test_of_votes_at_once_on_a_freed_battle_one_counts(ask: Ask, post: Ask, retract: Ask, counting: Ask) -> None:
    retract(post())
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: ask("POST", "/votes", json=OTHER).json(), range(16)))
    assert sorted(answer["status"] for answer in answers) == ["created"] + ["duplicate"] * 15
    assert counting() == {answers[0]["id"]}


def test_a_battle_is_not_freed_for_ever(
    ask: Ask, post: Ask, retract: Ask, assert_problem: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert repeats.MAX_REPLACEMENTS == 1_000
    monkeypatch.setattr(repeats, "MAX_REPLACEMENTS", 1)
    for _ in range(2):
        retract(post())
    assert "too often" in assert_problem(ask("POST", "/votes", json=VOTE), 409, "vote-conflict")["detail"]


def test_a_file_votes_anew_on_freed_battles(
    database: Database, tmp_path: Path, post: Ask, retract: Ask, counting: Ask
) -> None:
    kept = post(battle_id="kept")
    retract(post(battle_id="freed"))
    path = tmp_path / "votes.csv"
    path.write_text(
        "annotator,model_a,model_b,winner,battle_id\njudge,ant,bee,model_a,kept\njudge,ant,bee,tie,kept\n"
        "judge,ant,bee,tie,freed\njudge,bee,ant,tie,freed\njudge,ant,bee,model_b,freed\njudge,ant,bee,tie,new\n"
    )
    counts = import_file(database, path, ImportOptions(), requested_by="a test").counts
    assert (counts.created, counts.replaced, counts.duplicates, counts.conflicts) == (2, 0, 2, 2)
    assert kept in counting()
    assert len(counting()) == 3


def test_a_retraction_is_taken_back(ask: Ask, post: Ask, retract: Ask, withdraw: Ask, counting: Ask) -> None:
    vote_id = post()
    retraction_id = retract(vote_id)
    assert counting() == set()
    answer = withdraw(retraction_id)
    assert answer.status_code == 200
    withdrawn = answer.json()
    assert (withdrawn["id"], withdrawn["withdrawn_by"], withdrawn["withdrawal_reason"]) == (
        retraction_id, "review key", "it was right",
    )  # fmt: skip
    assert withdraw(retraction_id).json() == withdrawn, "twice is once"
    assert ask("GET", "/retractions").json()["items"] == [withdrawn], "both acts stay on record"
    assert ask("GET", f"/votes/{vote_id}").json()["retraction"] is None
    assert counting() == {vote_id}
    assert ask("POST", "/votes", json=VOTE).json() == {"id": vote_id, "status": "duplicate"}
    entry = ask("GET", "/audit").json()["items"][0]
    assert (entry["action"], entry["subject"]) == ("votes.retraction.withdraw", retraction_id)
    assert entry["detail"] == {"target": "vote", "votes": 1}
    again = retract(vote_id)
    assert counting() == set()
    assert ask("GET", f"/votes/{vote_id}").json()["retraction"]["id"] == again


def test_a_battle_with_a_new_vote_is_not_given_back(
    ask: Ask, post: Ask, retract: Ask, withdraw: Ask, assert_problem: Ask, counting: Ask
) -> None:
    first = post()
    other = post(battle_id="other")
    retraction_id = retract("judge", "annotator")
    second = post(OTHER)
    problem = assert_problem(withdraw(retraction_id), 409, "battle-taken")
    assert problem["id"] == second
    assert first in problem["detail"]
    assert counting() == {second}
    retract(second)
    assert withdraw(retraction_id).status_code == 200
    assert counting() == {first, other}
    # The first vote counts again, not the last one on the battle.
    assert ask("POST", "/votes", json=VOTE).json() == {"id": first, "status": "duplicate"}
    assert assert_problem(ask("POST", "/votes", json=OTHER), 409, "vote-conflict")["id"] == first


def test_a_race_of_a_new_vote_and_a_withdrawal_leaves_one_vote(
    ask: Ask, post: Ask, retract: Ask, withdraw: Ask, counting: Ask
) -> None:
    retractions = {battle: retract(post(battle_id=battle)) for battle in map(str, range(12))}

    def race(step: tuple[int, str]) -> int:
        kind, battle = step
        if kind:
            return int(withdraw(retractions[battle]).status_code)
        return int(ask("POST", "/votes", json={**OTHER, "battle_id": battle}).status_code)

    steps = [(kind, battle) for battle in retractions for kind in (0, 1)]
    with ThreadPoolExecutor(8) as pool:
        results = dict(zip(steps, pool.map(race, steps), strict=True))
    assert {(results[0, battle], results[1, battle]) for battle in retractions} <= {(201, 409), (409, 200)}
    assert len(counting()) == 12


def test_a_vote_that_two_retractions_cover_needs_both_back(
    ask: Ask, post: Ask, retract: Ask, withdraw: Ask, counting: Ask
) -> None:
    vote_id = post()
    first, second = retract(vote_id), retract("judge", "annotator")
    assert ask("GET", f"/votes/{vote_id}").json()["retraction"]["id"] == first
    withdraw(first)
    assert counting() == set()
    assert ask("GET", f"/votes/{vote_id}").json()["retraction"]["id"] == second
    withdraw(second)
    assert counting() == {vote_id}


def test_a_request_that_was_sent_twice_is_taken_back_once(
    ask: Ask, post: Ask, retract: Ask, withdraw: Ask, counting: Ask
) -> None:
    vote_id = post()
    first, _ = retract("judge", "annotator"), retract("judge", "annotator")
    withdraw(first)
    assert counting() == {vote_id}


def test_a_replaced_vote_stays_replaced(
    ask: Ask, post: Ask, retract: Ask, withdraw: Ask, change_policy: Ask, counting: Ask
) -> None:
    change_policy(on_conflict="replace")
    post()
    second = ask("POST", "/votes", json=OTHER).json()["id"]
    withdraw(retract("judge", "annotator"))
    assert counting() == {second}


def test_what_is_refused(ask: Ask, post: Ask, retract: Ask, withdraw: Ask, assert_problem: Ask, counting: Ask) -> None:
    retraction_id = retract(post())
    assert_problem(withdraw(str(uuid4())), 404, "not-found")
    path = f"/retractions/{retraction_id}/withdraw"
    assert_problem(ask("POST", path, scope=None, json=WHY), 401, "not-authenticated")
    for scope in ("ingest", "read"):
        assert_problem(ask("POST", path, scope=scope, json=WHY), 403, "scope-missing")
    for body in ({}, {"reason": " "}, {"reason": "x", "more": 1}):
        assert_problem(ask("POST", path, json=body), 422, "invalid")
    assert counting() == set()


def test_snapshots_are_reproduced_with_the_retractions_that_they_saw(
    ask: Ask, database: Database, crowd: list[str], refit: Ask, retract: Ask, withdraw: Ask
) -> None:
    def votes_used() -> int:
        return int(ask("GET", "/leaderboard").json()["snapshot"]["votes_used"])

    refit()
    before = votes_used()
    retraction_id = retract(crowd[0], "annotator")
    refit()
    assert votes_used() == before - 120
    withdraw(retraction_id)
    with database.read() as conn:
        numbers = [row for (row,) in conn.execute(text("SELECT number FROM snapshots ORDER BY number"))]
    refit()
    assert votes_used() == before
    for number in [*numbers, numbers[-1] + 1]:
        assert reproduce(database, str(number)).reproduced
