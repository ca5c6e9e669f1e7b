from collections.abc import Callable
from typing import Any

import pytest

Ask = Callable[..., Any]


def test_decisions_and_policies_are_on_the_log(ask: Ask, crowd: list[str], refit: Ask, change_policy: Ask) -> None:
    change_policy(min_votes=20)
    refit()
    body = {"action": "trust", "reason": "a colleague"}
    decided = ask("POST", f"/annotators/{crowd[0]}/decisions", json=body).json()
    newest, first = ask("GET", "/audit", scope="review").json()["items"]
    assert (newest["number"], newest["action"], newest["actor"]) == (2, "decision.trust", "admin key")
    assert newest["subject"] == decided["annotator"]["id"]
    assert (newest["detail"]["reason"], newest["detail"]["decision"]) == ("a colleague", decided["id"])
    assert (first["number"], first["action"], first["subject"]) == (1, "policy.set", "2")
    assert first["detail"] == {"reason": "a test", "changes": {"min_votes": [50, 20]}}


def test_pages(ask: Ask, change_policy: Ask) -> None:
    for votes in range(5):
        change_policy(min_votes=votes)
    page = ask("GET", "/audit", params={"limit": 3}).json()
    rest = ask("GET", "/audit", params={"limit": 3, "cursor": page["next_cursor"]}).json()
    assert [entry["number"] for entry in page["items"] + rest["items"]] == [5, 4, 3, 2, 1]
    assert rest["next_cursor"] is None


def test_entries_by_action_actor_and_subject(ask: Ask, crowd: list[str], change_policy: Ask) -> None:
    change_policy(min_votes=20)
    for action in ("trust", "exclude"):
        ask("POST", f"/annotators/{crowd[0]}/decisions", scope="review", json={"action": action, "reason": "a test"})

    def actions(**chosen: str) -> list[str]:
        return [entry["action"] for entry in ask("GET", "/audit", params=chosen).json()["items"]]

    assert actions(action="decision") == ["decision.exclude", "decision.trust"]
    assert actions(action="decision.trust") == ["decision.trust"]
    assert actions(action="decis") == actions(action="%") == []
    assert actions(actor="admin key") == actions(subject="2") == ["policy.set"]
    assert actions(actor="review key", subject="2") == []


def test_a_refused_decision_leaves_no_trace(ask: Ask, crowd: list[str]) -> None:
    body = {"action": "dismiss", "reason": "no flag"}
    assert ask("POST", f"/annotators/{crowd[0]}/decisions", json=body).status_code == 409
    assert ask("GET", "/audit").json()["items"] == []


@pytest.mark.usefixtures("crowd")
def test_a_snapshot_knows_how_long_the_log_was(ask: Ask, refit: Ask, change_policy: Ask) -> None:
    change_policy(min_votes=20)
    refit()
    audit = ask("GET", "/leaderboard").json()["diagnostics"]["audit"]
    assert audit == {"number": 1, "hash": ask("GET", "/audit").json()["items"][0]["hash"]}


def test_who_may(ask: Ask, assert_problem: Ask) -> None:
    assert_problem(ask("GET", "/audit", scope=None), 401, "not-authenticated")
    assert_problem(ask("GET", "/audit", scope="read"), 403, "scope-missing")
    assert_problem(ask("GET", "/audit?cursor=x"), 422, "invalid")
