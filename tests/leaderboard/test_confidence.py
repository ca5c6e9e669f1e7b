"""Are the votes enough: the verdict on the newest leaderboard, its probabilities and forecasts."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from httpx import Client
from sqlalchemy import delete

from app.database.engine import Database
from app.database.tables import snapshot_confidence
from tests.fixtures.crowds import crowd_votes
from tests.fixtures.pages import Page

Ask = Callable[..., Any]


def confidence(ask: Ask, **params: Any) -> Any:
    answer = ask("GET", "/leaderboard/confidence", scope=None, params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_verdict_and_what_is_open(ask: Ask, gather: Ask, refit: Ask, assert_problem: Ask) -> None:
    assert_problem(ask("GET", "/leaderboard/confidence", scope=None), 404, "no-snapshot")
    gather(honest=20)
    refit()
    board = ask("GET", "/leaderboard", scope=None).json()
    order = [row["model"] for row in board["models"]]
    found = {k: confidence(ask, k=k) for k in range(1, 6)}
    assert board["diagnostics"]["verdicts"] == {str(k): one["verdict"] for k, one in found.items()}
    assert {one["verdict"] for one in found.values()} == {"decided", "not-yet"}
    for k, one in found.items():
        assert (one["k"], one["confidence"], one["margin"], one["unscored"]) == (k, 0.95, 20.0, 0)
        assert (one["snapshot"]["number"], one["votes"], one["tag"]) == (1, 2400, None)
        assert one["leaders"] == order[:k]
        assert [row["model"] for row in one["models"]] == order
        assert [row["score"] for row in one["models"]] == [row["score"] for row in board["models"]]
        assert sum(row["p_best"] for row in one["models"]) == pytest.approx(1.0, abs=1e-3)
        assert sum(row["p_top_k"] for row in one["models"]) == pytest.approx(k, abs=1e-3)
        assert len(one["undecided"]) == one["undecided_pairs"]
        for pair in one["undecided"]:
            assert pair["above"] in order[:k]
            assert pair["below"] in order[k:]
            assert 0 <= pair["gap"] <= pair["half_width"]
            assert pair["more_votes"]["low"] <= (pair["more_votes"]["median"] or np.inf)
        if one["verdict"] == "decided":
            assert (one["undecided"], one["more_votes"]) == ([], None)
            assert "95 % confidence" in one["sentence"]
        else:
            assert one["undecided"]
            assert one["more_votes"]["low"] >= 1
            assert one["sentence"].startswith("It is not decided which")


def test_each_group_says_what_it_needs(ask: Ask, client: Client, refit: Ask) -> None:
    votes = crowd_votes(honest=30)
    far = [{**vote, **{side: f"far {vote[side]}" for side in ("model_a", "model_b")}} for vote in votes[::16]]
    assert ask("POST", "/votes/batch", json={"votes": [*votes, *far]}).status_code == 200
    refit()
    shown = [Page(client.get(f"/?group={group}")).text(".//div[@class='under']/p[@class='muted']") for group in (1, 2)]
    assert all("Decided" in one or "more votes would settle it" in one for one in shown), shown
    assert shown[0] != shown[1]
    assert confidence(ask)["votes"] == len(votes)


def test_an_answer_is_known_by_its_tag(ask: Ask, crowd: list[str], refit: Ask) -> None:
    refit()
    first = ask("GET", "/leaderboard/confidence", scope=None)
    again = {"If-None-Match": first.headers["etag"]}
    assert ask("GET", "/leaderboard/confidence", scope=None, headers=again).status_code == 304
    assert ask("GET", "/leaderboard/confidence", scope=None, headers=again, params={"k": 2}).status_code == 200
    assert ask("PATCH", "/models/model%202", json={"name": "model two"}).status_code == 200
    assert ask("GET", "/leaderboard/confidence", scope=None, headers=again).status_code == 200


def test_what_cannot_be_asked(ask: Ask, crowd: list[str], refit: Ask, assert_problem: Ask) -> None:
    refit()
    for params in ({"k": 0}, {"k": 6}, {"k": 51}, {"snapshot": "1", "as_of": "2026-01-01T00:00:00Z"}):
        assert_problem(ask("GET", "/leaderboard/confidence", scope=None, params=params), 422, "invalid")
    assert_problem(ask("GET", "/leaderboard/confidence", scope=None, params={"tag": "code"}), 404, "no-such-board")
    assert_problem(ask("GET", "/leaderboard/confidence", scope=None, params={"snapshot": "7"}), 404, "not-found")


def test_old_snapshots_say_that_it_is_not_kept(
    ask: Ask, crowd: list[str], refit: Ask, assert_problem: Ask, database: Database
) -> None:
    refit()
    with database.begin() as conn:
        conn.execute(delete(snapshot_confidence))
    assert_problem(ask("GET", "/leaderboard/confidence", scope=None), 404, "no-confidence")


def test_the_policy_sets_margin_and_confidence(ask: Ask, crowd: list[str], refit: Ask, change_policy: Ask) -> None:
    change_policy(equal_margin=1000, decision_confidence=0.5)
    refit()
    found = confidence(ask, k=3)
    assert (found["confidence"], found["margin"]) == (0.5, 1000.0)
    assert found["verdict"] in {"equal", "decided"}
    change_policy(equal_margin=0, decision_confidence=0.999999)
    refit()
    strict = [confidence(ask, k=k)["verdict"] for k in range(1, 6)]
    assert strict.count("decided") < 5
    assert "equal" not in strict


def test_a_model_without_a_score_leaves_the_verdict_open(
    ask: Ask, gather: Ask, refit: Ask, change_policy: Ask, vote: Ask
) -> None:
    gather(honest=30)
    change_policy(min_model_votes=0, min_model_annotators=0)
    vote(model_a="newcomer", model_b="model 0", winner="model_a")
    refit()
    found = confidence(ask, k=5)
    assert (found["unscored"], found["verdict"]) == (1, "not-yet")
    assert "newcomer" not in [row["model"] for row in found["models"]]
    sentence = "It is not decided which are the best 5 models: 1 model without a score may belong there."
    assert found["sentence"] == sentence


def test_a_provisional_model_is_no_part_of_the_verdict(ask: Ask, gather: Ask, refit: Ask, change_policy: Ask) -> None:
    """It counts as a model, so that the error rate holds when it gets a rank."""
    gather(honest=30)
    refit()
    alone = confidence(ask, k=1)
    pair = {"model_a": "newcomer", "model_b": "model 0"}
    votes = [{**pair, "winner": ("model_a", "model_b")[i % 6 == 0], "annotator": f"honest {i}"} for i in range(24)]
    assert ask("POST", "/votes/batch", json={"votes": votes}).status_code == 200
    change_policy(min_model_votes=30)
    refit()
    board = {row["model"]: row for row in ask("GET", "/leaderboard").json()["models"]}
    assert (board["newcomer"]["provisional"], board["newcomer"]["rank"]) == (True, None)
    assert board["newcomer"]["score"] > board[alone["leaders"][0]]["score"]
    found = confidence(ask, k=1)
    assert (found["provisional"], found["unscored"], found["leaders"]) == (1, 0, alone["leaders"])
    assert "newcomer" not in [row["model"] for row in found["models"]]
    assert sum(row["p_best"] for row in found["models"]) == pytest.approx(1.0, abs=1e-3)
    change_policy(min_model_votes=0)
    refit()
    ranked = confidence(ask, k=1)
    assert (ranked["provisional"], ranked["leaders"]) == (0, ["newcomer"])


def test_a_model_that_only_lost_leaves_it_open_until_its_losses_rule_it_out(
    ask: Ask, gather: Ask, refit: Ask, change_policy: Ask, vote: Ask
) -> None:
    annotators = gather(honest=30)
    change_policy(min_model_votes=0, min_model_annotators=0)
    for losses, verdict in ((1, "not-yet"), (60, "decided")):
        for number in range(losses):
            vote(model_a="last", model_b="model 5", winner="model_b", annotator=annotators[number % 30])
        refit()
        found = confidence(ask, k=1)
        assert (found["unscored"], found["verdict"]) == (1, verdict), found["sentence"]


@pytest.mark.comparisons
def test_a_tag_has_its_own(ask: Ask, refit: Ask, change_policy: Ask) -> None:
    votes = [{**one, "tags": ["half"] if i % 2 else []} for i, one in enumerate(crowd_votes(honest=12))]
    assert ask("POST", "/votes/batch", json={"votes": votes}).status_code == 200
    refit()
    whole, half = confidence(ask, k=2), confidence(ask, k=2, tag="half")
    assert (whole["votes"], half["votes"], half["tag"]) == (1440, 720, "half")
    gaps = [{row["model"]: row["p_top_k"] for row in one["models"]} for one in (whole, half)]
    assert gaps[0] != gaps[1]
