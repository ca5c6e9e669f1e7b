"""A model that keeps its score, on every leaderboard of a snapshot."""

from collections.abc import Callable
from typing import Any

import pytest

from app.database.engine import Database
from app.refits.reproduce import reproduce
from tests.fixtures.crowds import crowd_votes

Ask = Callable[..., Any]

ANCHOR = {"model": "model 3", "score": 1234.0}
METHODS = ("am-elo", "m-elo", "m-elo-all", "elo", "style", "people", "judges")


@pytest.fixture
def board(ask: Ask) -> Callable[..., dict[str, float]]:
    """Return the scores of the newest leaderboard, or of another one."""

    def read(**query: str) -> dict[str, float]:
        answer = ask("GET", "/leaderboard", params=query)
        assert answer.status_code == 200, answer.text
        return {row["model"]: row["score"] for row in answer.json()["models"]}

    return read


@pytest.mark.comparisons
def test_the_anchor_keeps_its_score_and_no_difference_changes(
    ask: Ask, change_policy: Ask, refit: Ask, board: Callable[..., dict[str, float]], database: Database
) -> None:
    change_policy(dimensions={"category": ["code", "text"]}, style_features=["side"], min_votes=20)
    votes = [
        {**vote, "tags": [f"category={'code' if place % 2 else 'text'}"]}
        for place, vote in enumerate(crowd_votes(honest=12, flip=2))
    ]
    judges = [
        {**vote, "annotator": f"LLM {vote['annotator']}", "annotator_kind": "judge"}
        for vote in crowd_votes(honest=3, votes_each=60)
    ]
    for start in range(0, len(votes := votes + judges), 1000):
        assert ask("POST", "/votes/batch", json={"votes": votes[start : start + 1000]}).status_code == 200
    refit()
    boards = [*({"method": method} for method in METHODS), {"tag": "category=code"}, {"tag": "category=text"}]
    free = [board(**one) for one in boards]
    change_policy(anchor=ANCHOR)
    refit()
    for one, before in zip(boards, free, strict=True):
        after, shift = board(**one), 1234.0 - before["model 3"]
        assert after == pytest.approx({name: score + shift for name, score in before.items()}, abs=1e-6), one
    whole = board()
    assert whole["model 3"] == pytest.approx(1234.0, abs=1e-9)
    for row in ask("GET", "/leaderboard/categories").json()["models"]:
        in_code, overall = (scores[row["model"]] - scores["model 3"] for scores in (free[-2], free[0]))
        difference = in_code - overall
        assert row["categories"]["category=code"]["difference"] == pytest.approx(difference, abs=1e-6)
    snapshot = ask("GET", "/snapshots/2").json()
    assert snapshot["settings"]["anchor"] == ANCHOR
    assert "unranked" not in snapshot["settings"], "nothing says how many models are unreleased, and which"
    assert "unranked" not in snapshot["settings"]
    summary = ask("GET", "/snapshots/1/diff/2").json()["summary"]
    assert "The setting anchor changed from none to model 3=1234." in summary
    assert ask("PATCH", "/models/model 3", json={"name": "Model III"}).status_code == 200
    assert max(reproduce(database, "2").differences.values()) < 1e-6
    assert reproduce(database, "1").reproduced
    refit()
    assert board()["Model III"] == pytest.approx(1234.0, abs=1e-9), "by its new name"


@pytest.mark.comparisons
def test_a_category_without_the_anchor_has_no_leaderboard(ask: Ask, change_policy: Ask, refit: Ask) -> None:
    change_policy(dimensions={"category": ["code", "text"]}, anchor=None)
    votes = [
        {**vote, "tags": ["category=text"] if "model 3" in (vote["model_a"], vote["model_b"]) else ["category=code"]}
        for vote in crowd_votes(honest=12, flip=2)
    ]
    for start in range(0, len(votes), 1000):
        assert ask("POST", "/votes/batch", json={"votes": votes[start : start + 1000]}).status_code == 200
    change_policy(anchor=ANCHOR)
    refit()
    snapshot = ask("GET", "/snapshots/1").json()
    assert snapshot["tags"] == ["category=text"]
    assert [one["code"] for one in snapshot["diagnostics"]["warnings"]].count("tag-board-omitted") == 1


def test_a_refit_without_the_anchor_s_score_fails(
    ask: Ask, crowd: list[str], change_policy: Ask, refit: Ask, board: Callable[..., dict[str, float]]
) -> None:
    refit()
    before = board()
    assert ask("POST", "/models", json={"name": "newcomer"}).status_code == 201
    change_policy(anchor={"model": "newcomer", "score": 1000})
    failed = refit()
    assert failed["state"] == "failed"
    assert "anchor" in failed["detail"]
    assert board() == before, "the newest leaderboard stays"
    change_policy(anchor=None)
    assert refit()["state"] == "done"


def test_an_anchor_is_a_model_that_the_public_knows(ask: Ask, assert_problem: Ask) -> None:
    assert ask("POST", "/models", json={"name": "lynx", "unreleased": True}).status_code == 201
    settings = ask("GET", "/policy").json()["settings"]
    for name in ("nothing", "lynx"):
        body = {"settings": {**settings, "anchor": {"model": name, "score": 1000}}, "reason": "a test"}
        problem = assert_problem(ask("PUT", "/policy", json=body), 422, "invalid")
        assert problem["errors"][0]["pointer"] == "/settings/anchor"


def test_impact_and_preview_are_of_the_anchored_leaderboard(
    ask: Ask, crowd: list[str], change_policy: Ask, refit: Ask
) -> None:
    change_policy(anchor=ANCHOR)
    refit()
    impact = ask("GET", "/annotators/honest 0/impact", scope="review").json()["models"]
    (anchor,) = [one for one in impact if one["model"] == "model 3"]
    assert anchor["change"] == pytest.approx(0.0, abs=1e-9)
    settings = ask("GET", "/policy").json()["settings"]
    preview = ask("POST", "/policy/preview", json={"settings": {**settings, "anchor": None}}).json()
    assert {round(one["change"], 6) for one in preview["models"]} != {0.0}, "every score moves by the same"
    assert len({round(one["change"], 6) for one in preview["models"]}) == 1
