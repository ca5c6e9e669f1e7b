from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import text

from app.database.engine import Database
from app.votes import repeats

Ask = Callable[..., Any]

VOTE = {"model_a": "a", "model_b": "b", "winner": "model_a", "annotator": "judge", "battle_id": "battle"}
SWAPPED = {**VOTE, "model_a": "b", "model_b": "a", "winner": "model_b"}
OTHER = {**VOTE, "winner": "tie"}


@pytest.fixture(autouse=True)
def _replacing(change_policy: Ask) -> None:
    change_policy(on_conflict="replace")


def history(database: Database) -> list[tuple[str, int, str | None]]:
    """Every vote of the battle: its id, its version, and what replaced it."""
    statement = """
    SELECT v.id, v.version, r.replaced_by FROM votes v LEFT JOIN retracted_votes r ON r.vote_id = v.id
    ORDER BY v.battle_id, v.version
    """
    with database.read() as conn:
        return [(str(id_), version, by and str(by)) for id_, version, by in conn.execute(text(statement))]


def test_another_verdict_takes_the_place_of_the_first(ask: Ask, database: Database) -> None:
    first = ask("POST", "/votes", json=VOTE).json()["id"]
    response = ask("POST", "/votes", json=OTHER)
    second = response.json()["id"]
    assert (response.status_code, response.json()) == (201, {"id": second, "status": "created", "replaces": first})
    assert history(database) == [(first, 0, second), (second, 1, None)]
    # What is on record now is what is compared.
    assert ask("POST", "/votes", json=OTHER).json() == {"id": second, "status": "duplicate"}
    third = ask("POST", "/votes", json=SWAPPED).json()
    assert third == {"id": third["id"], "status": "created", "replaces": second}
    assert history(database) == [(first, 0, second), (second, 1, third["id"]), (third["id"], 2, None)]


def test_a_batch_replaces_in_its_order(ask: Ask, database: Database) -> None:
    votes = [VOTE, OTHER, OTHER, SWAPPED, {**VOTE, "battle_id": "second"}, VOTE, OTHER]
    results = ask("POST", "/votes/batch", json={"votes": votes}).json()["results"]
    assert [each["status"] for each in results] == [
        "created", "created", "duplicate", "created", "created", "duplicate", "created",
    ]  # fmt: skip
    ids = [each["id"] for each in results]
    assert [each.get("replaces") for each in results] == [None, ids[0], None, ids[1], None, None, ids[3]]
    chain = [(ids[0], 0, ids[1]), (ids[1], 1, ids[3]), (ids[3], 2, ids[6]), (ids[6], 3, None)]
    assert history(database) == [*chain, (ids[4], 0, None)]


def test_other_models_replace_too(ask: Ask) -> None:
    first = ask("POST", "/votes", json=VOTE).json()["id"]
    assert ask("POST", "/votes", json={**VOTE, "model_b": "c"}).json()["replaces"] == first


@pytest.mark.parametrize("criterion", [None, "accuracy"])
def test_a_race_leaves_one_chain(ask: Ask, database: Database, criterion: str | None) -> None:
    def send(i: int) -> Any:
        vote = {**(VOTE if i % 2 else OTHER), "criterion": criterion}
        if i % 3:
            return ask("POST", "/votes", json=vote).json()
        return ask("POST", "/votes/batch", json={"votes": [vote]}).json()["results"][0]

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(send, range(60)))
    assert Counter(each["status"] for each in answers).keys() <= {"created", "duplicate"}
    chain = history(database)
    created = {each["id"]: each.get("replaces") for each in answers if each["status"] == "created"}
    assert {id_ for id_, _, _ in chain} == created.keys()
    assert [version for _, version, _ in chain] == list(range(len(chain)))
    assert [by for _, _, by in chain] == [*(id_ for id_, _, _ in chain[1:]), None]
    assert [created[id_] for id_, _, _ in chain] == [None, *(id_ for id_, _, _ in chain[:-1])]


def test_a_verdict_cannot_be_changed_for_ever(
    ask: Ask, database: Database, assert_problem: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeats, "MAX_REPLACEMENTS", 2)
    for vote in (VOTE, OTHER, VOTE):
        assert ask("POST", "/votes", json=vote).status_code == 201
    assert_problem(ask("POST", "/votes", json=OTHER), 409, "vote-conflict")
    assert len(history(database)) == 3


def test_with_a_key_a_late_copy_of_the_first_verdict_replaces_nothing(ask: Ask, database: Database) -> None:
    first = ask("POST", "/votes", json=VOTE, headers={"Idempotency-Key": "1"})
    ask("POST", "/votes", json=OTHER, headers={"Idempotency-Key": "2"})
    late = ask("POST", "/votes", json=VOTE, headers={"Idempotency-Key": "1"})
    assert (late.status_code, late.json()) == (201, first.json())
    assert len(history(database)) == 2


def test_back_to_refusing(ask: Ask, change_policy: Ask, assert_problem: Ask) -> None:
    ask("POST", "/votes", json=VOTE)
    second = ask("POST", "/votes", json=OTHER).json()["id"]
    change_policy(on_conflict="reject")
    assert assert_problem(ask("POST", "/votes", json=VOTE), 409, "vote-conflict")["id"] == second
