"""Votes on several questions: each is asked once for a battle, and has a leaderboard of its own."""

from collections.abc import Callable
from typing import Any

import pytest

from app.database.engine import Database
from app.refits.reproduce import reproduce
from app.snapshots.service import find_snapshot
from app.votes.arrays import read_votes
from tests.fixtures.crowds import RANK_EVERYTHING, crowd_votes

Ask = Callable[..., Any]

VOTE = {"model_a": "a", "model_b": "b", "winner": "model_a", "annotator": "ann", "battle_id": "battle"}


def on(criterion: str | None, **changes: str) -> dict[str, Any]:
    return {**VOTE, "criterion": criterion, **changes}


def test_each_criterion_has_a_vote_of_its_own(ask: Ask) -> None:
    votes = [
        VOTE, on("overall"), on("accuracy", winner="model_b"), on("accuracy", winner="model_b"), on("accuracy"),
        on("style", winner="tie"), on("style", model_a="b", model_b="a", winner="tie"),
    ]  # fmt: skip
    results = ask("POST", "/votes/batch", json={"votes": votes}).json()["results"]
    assert [one["status"] for one in results] == [
        "created", "duplicate", "created", "duplicate", "conflict", "created", "duplicate",
    ]  # fmt: skip
    assert results[4]["id"] == results[2]["id"]
    listed = ask("GET", "/annotators/ann/votes", scope="review:read").json()["items"]
    assert [one["criterion"] for one in listed] == ["style", "accuracy", None]


@pytest.mark.parametrize("change", [{"criterion": ""}, {"criterion": "x" * 101}])
def test_a_bad_criterion_is_refused(ask: Ask, assert_problem: Ask, change: dict[str, str]) -> None:
    problem = assert_problem(ask("POST", "/votes", json={**VOTE, **change}), 422, "invalid")
    assert [error["pointer"] for error in problem["errors"]] == ["/criterion"]


def test_a_retracted_vote_leaves_the_other_criteria(ask: Ask, database: Database) -> None:
    accuracy = ask("POST", "/votes", json=on("accuracy")).json()["id"]
    ask("POST", "/votes", json=VOTE)
    assert ask("GET", f"/votes/{accuracy}", scope="review").json()["criterion"] == "accuracy"
    body = {"target": "vote", "id": accuracy, "reason": "a slip"}
    assert ask("POST", "/retractions", json=body, scope="review").status_code == 201
    again = ask("POST", "/votes", json=on("accuracy", winner="tie")).json()
    assert again["status"] == "created"
    with database.read() as conn:
        assert len(read_votes(conn).outcome) == 1
        assert read_votes(conn, criterion="accuracy").outcome.tolist() == [2]


def test_a_vote_by_another_criterion_is_no_rival(ask: Ask) -> None:
    """A retraction is taken back where the annotator's vote on the battle by another criterion counts."""
    for criterion in ("accuracy", None):
        retraction = {
            "target": "vote",
            "id": ask("POST", "/votes", json=on(criterion)).json()["id"],
            "reason": "a slip",
        }
        ask("POST", "/votes", json=on("style", battle_id="battle"))
        made = ask("POST", "/retractions", json=retraction, scope="review").json()
        assert made["votes"] == 1
        path = f"/retractions/{made['id']}/withdraw"
        assert ask("POST", path, json={"reason": "it was right"}, scope="review").status_code == 200


def test_the_votes_on_a_battle_are_retracted_by_all_criteria(ask: Ask) -> None:
    for criterion in (None, "accuracy", "style"):
        ask("POST", "/votes", json=on(criterion))
    body = {"target": "battle", "id": "battle", "reason": "it showed an error"}
    assert ask("POST", "/retractions", json=body, scope="review").json()["votes"] == 3


@pytest.mark.comparisons
def test_the_main_leaderboard_counts_overall_alone(
    ask: Ask, database: Database, store_crowd: Callable[..., None], run_refit: Ask, store_policy: Ask
) -> None:
    """By "worse" the annotators prefer the models in the opposite order."""
    store_policy(**RANK_EVERYTHING)
    store_crowd(honest=12)
    run_refit()
    before = ask("GET", "/leaderboard").json()["models"]
    turned = {"model_a": "model_b", "model_b": "model_a", "tie": "tie"}
    votes = [{**vote, "winner": turned[vote["winner"]], "criterion": "worse"} for vote in crowd_votes(honest=12)]
    few = [{**vote, "criterion": "few"} for vote in crowd_votes(honest=12)[:20]]
    assert ask("POST", "/votes/batch", json={"votes": votes + few}).json()["counts"]["created"] == len(votes + few)
    run_refit()
    assert ask("GET", "/leaderboard").json()["models"] == before
    worse = ask("GET", "/leaderboard", params={"tag": "criterion=worse"}).json()["models"]
    assert [one["model"] for one in worse] == [one["model"] for one in before][::-1]
    found = ask("GET", "/leaderboard/criteria").json()
    assert found["criteria"] == ["overall", "worse"]
    (pair,) = found["agreement"]
    assert (pair["first"], pair["second"], pair["pairs"], pair["same"]) == ("overall", "worse", 15, 0)
    assert pair["tau"] == -1.0
    assert pair["tau_lower"] == -1.0 < pair["tau_upper"] == 1 - 2 * pair["opposite"] / 15 < 0
    with database.read() as conn:
        assert "criterion-board-omitted" in {one["code"] for one in find_snapshot(conn).diagnostics["warnings"]}
    assert reproduce(database, "2").reproduced


@pytest.mark.comparisons
def test_criteria_agree_in_every_group(
    ask: Ask, store_crowd: Callable[..., None], run_refit: Ask, store_policy: Ask
) -> None:
    """No vote links the models that the criterion ranks to those with the most votes."""
    store_policy(**RANK_EVERYTHING)
    store_crowd(honest=12)
    others = [
        {**vote, **{side: f"other {vote[side]}" for side in ("model_a", "model_b")}} for vote in crowd_votes(honest=6)
    ]
    again = [{**vote, "criterion": "again"} for vote in others]
    assert ask("POST", "/votes/batch", json={"votes": others + again}).status_code == 200
    run_refit()
    (pair,) = ask("GET", "/leaderboard/criteria").json()["agreement"]
    assert (pair["pairs"], pair["opposite"], pair["tau_upper"]) == (15, 0, 1.0)
    assert pair["same"] > 0
