"""A ranking of several models is one vote: stored as given, counted once, retracted as one, read as its pairs."""

from collections.abc import Callable
from typing import Any

import pytest
from httpx import Client

from app.database.engine import Database
from app.models.queries import read_model_names
from app.policy.schemas import Policy
from app.refits.load import load_fit_input
from app.refits.queries import list_rules
from app.review.queue import queue_state
from app.snapshots.service import find_snapshot
from app.votes.arrays import VoteArrays, read_votes
from tests.fixtures.crowds import RANK_EVERYTHING

Ask = Callable[..., Any]

RANKING = {"ranking": [["m3"], ["m2", "m1"]], "annotator": "ann", "battle_id": "battle"}
BEST_OF_FOUR = {"ranking": [["m1"], ["m4", "m2", "m3"]], "annotator": "ann"}


def pairs(votes: VoteArrays) -> list[tuple[int, ...]]:
    return sorted(zip(*(x.tolist() for x in (votes.model_a_id, votes.model_b_id, votes.outcome)), strict=True))


@pytest.fixture
def read(database: Database) -> Callable[[], list[tuple[str, str, str]]]:
    """Read the votes that count, with the models' names: a winner or "=" between them."""

    def read() -> list[tuple[str, str, str]]:
        with database.read() as conn:
            names = read_model_names(conn)
            found = pairs(read_votes(conn))
        return sorted(
            (min(names[a], names[b]), max(names[a], names[b]), "=" if w > 1 else names[b if w else a])
            for a, b, w in found
        )

    return read


def test_a_ranking_is_one_vote_that_counts_as_its_pairs(ask: Ask, read: Ask) -> None:
    answer = ask("POST", "/votes", json=RANKING)
    created = answer.json()
    assert (answer.status_code, created) == (201, {"id": created["id"], "status": "created", "pairs": 3})
    kept = ask("GET", f"/votes/{created['id']}", scope="review").json()
    assert (kept["ranking"], kept["battle_id"]) == (RANKING["ranking"], "battle")
    assert read() == [("m1", "m2", "="), ("m1", "m3", "m3"), ("m2", "m3", "m3")]
    listed = ask("GET", "/annotators/ann/votes", scope="review:read").json()["items"]
    assert [one["ranking"] for one in listed] == [RANKING["ranking"]]


def test_the_same_order_again_is_a_duplicate_and_another_a_conflict(ask: Ask, read: Ask, change_policy: Ask) -> None:
    first = ask("POST", "/votes", json=RANKING).json()["id"]
    before = read()
    same = {**RANKING, "ranking": [["m3"], ["m1", "m2"]]}
    others = [
        {**RANKING, "ranking": [["m3", "m2"], ["m1"]]}, {**RANKING, "ranking": [["m3"], ["m2"]]},
        {"annotator": "ann", "battle_id": "battle", "model_a": "m3", "model_b": "m1", "winner": "model_a"},
    ]  # fmt: skip
    results = ask("POST", "/votes/batch", json={"votes": [same, *others]}).json()["results"]
    assert [(one["status"], one["id"]) for one in results] == [("duplicate", first)] + [("conflict", first)] * 3
    assert read() == before
    assert ask("POST", "/votes", json={**RANKING, "criterion": "accuracy"}).status_code == 201
    change_policy(on_conflict="replace")
    replaced = ask("POST", "/votes", json=others[0]).json()
    assert (replaced["replaces"], replaced["pairs"]) == (first, 3)
    assert read() == [("m1", "m2", "m2"), ("m1", "m3", "m3"), ("m2", "m3", "=")]


def test_a_ranking_of_two_says_what_a_vote_on_the_pair_does(ask: Ask) -> None:
    pair = {"annotator": "ann", "battle_id": "battle", "model_a": "m1", "model_b": "m2", "winner": "model_b"}
    first = ask("POST", "/votes", json=pair).json()["id"]
    again = ask("POST", "/votes", json={**RANKING, "ranking": [["m2"], ["m1"]]}).json()
    assert again == {"id": first, "status": "duplicate"}


@pytest.mark.parametrize("target", ["vote", "battle", "model", "annotator"])
def test_it_is_retracted_as_one(ask: Ask, read: Ask, target: str) -> None:
    vote = ask("POST", "/votes", json=RANKING).json()["id"]
    ask("POST", "/votes", json={**BEST_OF_FOUR, "annotator": "bob", "ranking": [["m1"], ["m2", "m4"]]})
    key = {"vote": vote, "battle": "battle", "model": "m3", "annotator": "ann"}[target]
    retraction = ask("POST", "/retractions", json={"target": target, "id": key, "reason": "x"}, scope="review").json()
    assert retraction["votes"] == 1
    assert read() == [("m1", "m2", "m1"), ("m1", "m4", "m1"), ("m2", "m4", "=")]
    ask("POST", f"/retractions/{retraction['id']}/withdraw", json={"reason": "x"}, scope="review")
    assert len(read()) == 6


def test_it_counts_once_for_the_limit_of_votes_and_for_the_quota(
    ask: Ask, client: Client, database: Database, run_refit: Ask, store_policy: Ask
) -> None:
    votes = [{**BEST_OF_FOUR, "annotator": who} for who in ("ann", "bob") for _ in range(4)]
    ask("POST", "/votes/batch", json={"votes": [*votes, {**votes[0], "ranking": [["m1"], ["m2"]]}]})
    store_policy(**RANK_EVERYTHING, min_votes=4)
    assert run_refit().state == "done"
    shown = ask("GET", "/annotators", scope="review:read").json()["items"]
    assert {one["annotator"]: (one["votes"], one["standing"]) for one in shown} == {
        "ann": (5, "active"), "bob": (4, "pending"),
    }  # fmt: skip
    diagnostics = ask("GET", "/snapshots/1", scope="read").json()["diagnostics"]
    assert diagnostics["rankings"] == {"votes_read": 9, "votes_used": 5}
    with database.read() as conn:
        assert [read for _, read in list_rules(conn, limit=1)] == [9], "what shares of annotators' votes are of"
        assert (queue_state(conn).votes_read, find_snapshot(conn).votes_read) == (9, 49)
    said = "5 of 9 votes on record count, as 25 of 49 pairs"
    for page in ("/", "/method"):
        assert said in client.get(page).text
    account = diagnostics["votes"]
    assert {name: account[name] for name in ("read", "used", "pending", "excluded")} == {
        "read": 49, "used": 25, "pending": 24, "excluded": 0,
    }  # fmt: skip
    with database.read() as conn:
        within = load_fit_input(conn, Policy(max_votes_per_day=3))
    assert (len(within.outcome), within.over_quota) == (2 * 3 * 6, 6 + 6 + 1)
    ask("POST", "/retractions", json={"target": "annotator", "id": "bob", "reason": "x"}, scope="review")
    with database.read() as conn:
        without = load_fit_input(conn)
    assert (without.votes_read, without.retracted) == (49, 24), "retracted votes stay on record"


def test_pairs_of_merged_models_do_not_count(ask: Ask, database: Database) -> None:
    ask("POST", "/votes", json=BEST_OF_FOUR)
    assert ask("POST", "/models/m4/merge", json={"into": "m1", "reason": "x"}, scope="admin").status_code < 300
    with database.read() as conn:
        found = load_fit_input(conn)
    assert (len(found.outcome), found.same_model) == (5, 1)
    assert found.votes_by_annotator is not None
    assert found.votes_by_annotator.tolist() == [1.0]


@pytest.mark.parametrize(
    "ranking",
    [
        [],
        [[]],
        [["m1"], []],
        [["m1"]],
        [["m1"], ["m1"]],
        [["m1", "m2"], ["m1"]],
        [[f"m{i}"] for i in range(21)],
        ["m1"],
    ],
)
def test_what_is_no_ranking_is_refused(ask: Ask, assert_problem: Ask, ranking: Any) -> None:
    problem = assert_problem(ask("POST", "/votes", json={**RANKING, "ranking": ranking}), 422, "invalid")
    assert problem["errors"][0]["pointer"].startswith("/ranking")
    counts = ask("POST", "/votes/batch", json={"votes": [{**RANKING, "ranking": ranking}, RANKING]}).json()["counts"]
    assert (counts["created"], counts["invalid"]) == (1, 1)


@pytest.mark.parametrize(
    "other", [{"model_a": "m1", "model_b": "m2", "winner": "tie"}, {"token": "t"}, {"features": {}}]
)
def test_a_ranking_stands_alone(ask: Ask, assert_problem: Ask, other: dict[str, Any]) -> None:
    problem = assert_problem(ask("POST", "/votes", json={**RANKING, **other}), 422, "invalid")
    assert {one["pointer"].removeprefix("/") for one in problem["errors"]} & {*other, "ranking"}


def test_two_names_of_one_model_are_no_ranking(ask: Ask, assert_problem: Ask) -> None:
    ask("POST", "/votes", json=RANKING)
    ask("POST", "/models/m1/aliases", json={"name": "first"}, scope="admin")
    problem = assert_problem(ask("POST", "/votes", json={**RANKING, "ranking": [["m1"], ["first"]]}), 422, "invalid")
    assert [error["pointer"] for error in problem["errors"]] == ["/ranking/1/0"]
