"""The impact of an annotator, compared with what refits without the annotator then publish."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.fixtures.refits import Around

Ask = Callable[..., Any]


def board(ask: Ask, number: int) -> dict[str, Any]:
    return {row["model"]: row for row in ask("GET", f"/leaderboard?snapshot={number}").json()["models"]}


def test_it_says_what_the_next_refit_then_does(ask: Ask, crowd: list[str], refit: Ask, vote: Ask) -> None:
    refit()
    vote(model_b="newcomer")  # after the snapshot: no part of it
    seen = ask("GET", "/annotators/flip 12/impact", scope="review")
    assert seen.status_code == 200, seen.text
    exact = seen.json()
    assert (exact["annotator"], exact["snapshot"], exact["what"]) == ("flip 12", 1, "left out")
    assert (exact["how"], exact["votes"]) == ("refit", 120)
    assert ask("GET", "/annotators/flip 12/impact?exact=true").json() == exact
    before = board(ask, 1)
    assert [row["model"] for row in exact["models"]] == list(before), "in the board's order"
    ask("POST", "/annotators/flip 12/decisions", json={"action": "exclude", "reason": "a test"})
    votes = ask("GET", "/annotators/honest 0/votes?limit=1").json()["items"]
    ask("POST", f"/votes/{votes[0]['id']}/retract", json={"reason": "a test"})
    refit()
    after = board(ask, 2)
    assert max(abs(after[name]["score"] - before[name]["score"]) for name in before) > 2, "it moves something"
    for row in exact["models"]:
        old, new = before[row["model"]], after[row["model"]]
        assert (row["score_before"], row["rank_before"], row["rank_after"]) == (old["score"], old["rank"], new["rank"])
        assert row["score_after"] == pytest.approx(new["score"], abs=1e-4)
        assert row["change"] == pytest.approx(row["score_after"] - row["score_before"])
        assert row["beyond_interval"] == (not old["lower"] <= new["score"] <= old["upper"])
    assert exact["summary"]


def test_decisions_that_wait_are_no_effect_of_this_one(ask: Ask, crowd: list[str], refit: Ask) -> None:
    refit()
    for name, action in (("honest 3", "exclude"), ("flip 13", "dismiss")):
        ask("POST", f"/annotators/{name}/decisions", json={"action": action, "reason": "a test"})
    seen = ask("GET", "/annotators/flip 12/impact").json()
    assert (seen["snapshot"], seen["waiting"], seen["what"]) == (1, 2, "left out")
    assert ask("GET", "/annotators/honest 3/impact").json()["what"] == "let in"
    refit()
    before = board(ask, 2)
    ask("POST", "/annotators/flip 12/decisions", json={"action": "exclude", "reason": "a test"})
    refit()
    after = board(ask, 3)
    for row in seen["models"]:
        old, new = before[row["model"]], after[row["model"]]
        assert (row["rank_before"], row["rank_after"]) == (old["rank"], new["rank"])
        assert (row["score_before"], row["score_after"]) == pytest.approx((old["score"], new["score"]), abs=1e-4)


def test_an_annotator_outside_the_fit_is_let_in(ask: Ask, crowd: list[str], refit: Ask) -> None:
    refit()
    whole = board(ask, 1)
    ask("POST", "/annotators/honest 3/decisions", json={"action": "exclude", "reason": "a test"})
    refit()
    seen = ask("GET", "/annotators/honest 3/impact").json()
    assert (seen["what"], seen["how"], seen["votes"], seen["snapshot"]) == ("let in", "refit", 120, 2)
    assert seen["summary"][0].startswith("The votes do not count now")
    assert {row["model"]: row["score_after"] for row in seen["models"]} == pytest.approx(
        {name: row["score"] for name, row in whole.items()}, abs=1e-4
    )


@pytest.mark.parametrize("policy", [{"min_model_votes": 30}, {"min_model_votes": 0, "max_interval_width": 200}])
def test_only_ranked_models_are_counted(
    ask: Ask, crowd: list[str], refit: Ask, change_policy: Ask, policy: dict[str, Any]
) -> None:
    """A newcomer amid the others has a score and no rank: it takes no rank of theirs."""
    pair = {"model_a": "newcomer", "model_b": "model 3"}
    batch = [{**pair, "winner": ("model_a", "model_b")[i % 2], "annotator": f"honest {i % 12}"} for i in range(24)]
    assert ask("POST", "/votes/batch", json={"votes": batch}).status_code == 200
    change_policy(**policy)
    refit()
    provisional = [name for name, row in board(ask, 1).items() if row["provisional"]]
    assert provisional == ["newcomer"]
    ranked = [name for name in board(ask, 1) if name != "newcomer"]
    seen = ask("GET", "/annotators/honest 1/impact").json()
    assert [row["model"] for row in seen["models"]] == [*ranked, "newcomer"]
    *others, new = seen["models"]
    assert (new["rank_before"], new["rank_after"], new["place_change"]) == (None, None, None)
    assert new["change"] is not None
    for when in ("rank_before", "rank_after"):
        assert sorted(row[when] for row in others) == list(range(1, len(ranked) + 1))
    assert all(row["place_change"] is not None for row in others)


def test_an_annotator_without_votes_moves_nothing(ask: Ask, crowd: list[str], refit: Ask, vote: Ask) -> None:
    refit()
    vote(annotator="late")
    seen = ask("GET", "/annotators/late/impact").json()
    assert (seen["what"], seen["votes"]) == ("let in", 0)
    assert seen["summary"] == ["The votes are not in this snapshot: nothing would change."]
    assert {row["change"] for row in seen["models"]} == {0.0}


def test_a_model_that_hangs_on_one_annotator(ask: Ask, crowd: list[str], refit: Ask) -> None:
    """No other annotator has judged it: without that one it has no score, which only a refit shows."""
    pair = {"model_a": "hanging", "model_b": "model 0", "annotator": "honest 1"}
    batch = [{**pair, "winner": winner} for winner in ("model_a", "model_b", "tie") * 4]
    assert ask("POST", "/votes/batch", json={"votes": batch}).status_code == 200
    refit()
    seen = ask("GET", "/annotators/honest 1/impact").json()
    (row,) = [row for row in seen["models"] if row["model"] == "hanging"]
    assert seen["how"] == "refit"
    assert row["score_before"] is not None
    assert (row["score_after"], row["change"], row["rank_after"]) == (None, None, None)
    assert "hanging would no longer have a score." in seen["summary"]


def test_asked_again_it_is_remembered_and_one_is_computed_at_a_time(
    ask: Ask, assert_problem: Ask, crowd: list[str], refit: Ask, around_fits: Around
) -> None:
    refit()
    entered, leave = threading.Event(), threading.Event()
    calls: list[int] = []

    def fit_slowly(fit: Callable[[], Any]) -> Any:
        calls.append(1)
        entered.set()
        assert leave.wait(120)
        return fit()

    around_fits(fit_slowly)
    answers: list[Any] = []
    first = threading.Thread(target=lambda: answers.append(ask("GET", "/annotators/flip 12/impact")))
    first.start()
    assert entered.wait(120)
    busy = ask("GET", "/annotators/flip 13/impact")
    leave.set()
    first.join()
    assert_problem(busy, 503, "impact-busy")
    assert answers[0].status_code == 200
    again = ask("GET", f"/annotators/{answers[0].json()['id']}/impact")
    assert (again.json(), len(calls)) == (answers[0].json(), 1)


def test_what_is_refused(ask: Ask, assert_problem: Ask, crowd: list[str], change_policy: Ask, refit: Ask) -> None:
    path = "/annotators/honest 0/impact"
    assert_problem(ask("GET", path), 404, "no-snapshot")
    change_policy(min_votes=119)
    refit()
    assert_problem(ask("GET", "/annotators/nobody/impact"), 404, "not-found")
    assert_problem(ask("GET", path, params={"exact": "x"}), 422, "invalid")
    assert_problem(ask("GET", path, scope="read"), 403, "scope-missing")
    assert_problem(ask("GET", path, scope=None), 401, "not-authenticated")


def test_the_last_one_cannot_be_left_out(ask: Ask, assert_problem: Ask, crowd: list[str], refit: Ask) -> None:
    for key in crowd[1:]:
        ask("POST", f"/annotators/{key}/decisions", json={"action": "exclude", "reason": "a test"})
    refit()
    alone = assert_problem(ask("GET", f"/annotators/{crowd[0]}/impact"), 409, "cannot-fit")
    assert alone["detail"] == "no other annotator's votes count: without this annotator there is no leaderboard"


@pytest.fixture
def pair_apart(ask: Ask, crowd: list[str]) -> list[str]:
    """Ten more annotators who judge two models of their own, one of which always wins; returns their keys."""
    keys = [f"pp{k}" for k in range(10)]
    vote = {"model_a": "P1", "model_b": "P2", "winner": "model_a"}
    for key in keys:
        batch = [{**vote, "annotator": key}] * 60
        assert ask("POST", "/votes/batch", json={"votes": batch}).status_code == 200
    return keys


def test_an_annotator_of_models_without_a_score_counts_and_moves_nothing(
    ask: Ask, pair_apart: list[str], refit: Ask
) -> None:
    refit()
    assert ask("GET", "/annotators/pp3").json()["standing"] == "active"
    for exact in (False, True):
        seen = ask("GET", f"/annotators/pp3/impact?exact={exact}").json()
        assert (seen["what"], seen["votes"]) == ("left out", 60)
        assert seen["summary"] == ["No model would change its rank; the largest change would be 0.0 points."]
        other = ask("GET", f"/annotators/honest 1/impact?exact={exact}").json()
        apart = [row for row in other["models"] if row["model"] in ("P1", "P2")]
        assert [(row["score_before"], row["rank_before"], row["rank_after"]) for row in apart] == [
            (None, 1, 1),
            (None, 2, 2),
        ]
        assert not [line for line in other["summary"] if line.startswith("P")]


def test_models_without_a_score_have_none_to_lose(
    ask: Ask, pair_apart: list[str], refit: Ask, change_policy: Ask
) -> None:
    change_policy(min_model_annotators=1)
    for key in pair_apart[1:]:
        ask("POST", f"/annotators/{key}/decisions", json={"action": "exclude", "reason": "a test"})
    refit()
    summary = ask("GET", "/annotators/pp0/impact?exact=true").json()["summary"]
    assert summary == ["P1 would have no rank.", "P2 would have no rank."]
