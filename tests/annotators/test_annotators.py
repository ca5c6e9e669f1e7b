from collections.abc import Callable
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import numpy as np
import pytest

from stable_arena_lab.defences.habits import Crowd, draw
from tests.fixtures.crowds import WINNERS

Ask = Callable[..., Any]


@pytest.fixture
def decide(ask: Ask) -> Ask:
    """Put a decision on record."""

    def send(annotator: str, action: str) -> Any:
        taken = ask("POST", f"/annotators/{annotator}/decisions", json={"action": action, "reason": "a test"})
        assert taken.status_code == 201, taken.text
        return taken.json()

    return send


@pytest.fixture
def look_up(ask: Ask) -> Ask:
    """Return an annotator."""
    return lambda annotator: ask("GET", f"/annotators/{annotator}", scope="review").json()


def votes_used(ask: Ask) -> int:
    used = ask("GET", "/leaderboard").json()["snapshot"]["votes_used"]
    assert isinstance(used, int)
    return used


def test_those_who_vote_against_the_truth_are_flagged(ask: Ask, crowd: list[str], refit: Ask) -> None:
    refit()
    flagged = ask("GET", "/annotators?standing=flagged", scope="review").json()["items"]
    assert {one["annotator"] for one in flagged} == {"flip 12", "flip 13"}
    assert list(flagged[0]) == [
        "id", "annotator", "ability", "se", "ability_lower", "ability_upper",
        "shadow_ability", "shadow_se", "shadow_lower", "shadow_upper",
        "probability_low",
        "adjusted_ability", "adjusted_lower", "adjusted_upper",
        "tie_readiness", "tie_readiness_lower", "tie_readiness_upper",
        "side_lean", "side_lean_lower", "side_lean_upper", "leans",
        "votes", "standing", "rule_standing", "override", "kind",
    ]  # fmt: skip
    assert all(one["ability"] < 0 and one["probability_low"] > 0.99 and one["votes"] == 120 for one in flagged)
    assert flagged[0]["ability"] <= flagged[1]["ability"]
    for one in flagged:
        assert one["adjusted_lower"] < one["adjusted_ability"] < one["adjusted_upper"] < 0
        assert 0 < one["tie_readiness_lower"] < one["tie_readiness"] < one["tie_readiness_upper"] < 1
        assert one["side_lean"] is None, "no annotator of this crowd leans"
    queue = ask("GET", "/reviews", scope="review").json()["items"]
    assert {one["id"]: {name: one[name] for name in flagged[0]} for one in queue} == {one["id"]: one for one in flagged}
    assert [list(one) for one in queue] == [[*flagged[0], "evidence"]] * 2
    assert votes_used(ask) == 14 * 120, "a flag warns, it takes nothing out"


def test_a_lean_is_shown_in_points_and_not_taken_for_inability(ask: Ask, refit: Ask, look_up: Ask) -> None:
    k, left, right, outcome, _ = draw(1, Crowd("lean, sd 300", annotators=24, votes_each=100))
    votes = [
        {"annotator": f"a{k}", "model_a": f"m{a}", "model_b": f"m{b}", "winner": WINNERS[W]}
        for k, a, b, W in zip(k, left, right, outcome, strict=True)
    ]
    for part in (votes[:1_000], votes[1_000:2_000], votes[2_000:]):
        assert ask("POST", "/votes/batch", json={"votes": part}).status_code == 200
    refit()
    crowd = [look_up(f"a{i}") for i in range(24)]
    lean = np.array([one["side_lean"] for one in crowd])
    won = np.bincount(k, outcome == 1.0) / np.bincount(k, outcome != 0.5)
    assert np.corrcoef(lean, won)[0, 1] > 0.9
    leaner = crowd[int(np.argmax(lean))]
    assert 0 < leaner["side_lean_lower"] < leaner["side_lean"] < leaner["side_lean_upper"]
    furthest = np.argsort(-np.abs(lean))[:6]
    assert np.mean([crowd[i]["ability"] for i in furthest]) == pytest.approx(1.0, abs=0.2)


def test_abilities_have_intervals(ask: Ask, crowd: list[str], decide: Ask, refit: Ask, look_up: Ask) -> None:
    decide("honest 3", "exclude")
    refit()
    inside, outside = look_up("honest 1"), look_up("honest 3")
    history = [ask("GET", f"/annotators/{key}/history").json()["items"][0] for key in ("honest 1", "honest 3")]
    listed = {one["annotator"]: one for one in ask("GET", "/annotators", params={"limit": 100}).json()["items"]}
    for one in (inside, history[0], listed["honest 1"]):
        assert one["se"] > 0
        ends = one["ability"] - 1.959964 * one["se"], one["ability"] + 1.959964 * one["se"]
        assert (one["ability_lower"], one["ability_upper"]) == pytest.approx(ends)
        assert (one["shadow_lower"], one["shadow_upper"]) == (None, None)
    for one in (outside, history[1], listed["honest 3"]):
        assert one["shadow_se"] > 0
        ends = one["shadow_ability"] - 1.959964 * one["shadow_se"], one["shadow_ability"] + 1.959964 * one["shadow_se"]
        assert (one["shadow_lower"], one["shadow_upper"]) == pytest.approx(ends)
        assert (one["ability_lower"], one["ability_upper"]) == (None, None)


def test_the_detail_has_agreement_and_what_waits_for_a_decision(
    ask: Ask, crowd: list[str], decide: Ask, refit: Ask, look_up: Ask
) -> None:
    assert look_up("honest 1")["agreement"] is None, "there is no board yet"
    refit()
    for note in ("answered", "waits"):
        assert ask("POST", "/annotators/honest 1/appeals", json={"note": note}).status_code == 201
        if note == "answered":
            decide("honest 1", "trust")
    seen = look_up("honest 1")
    assert seen["agreement"] == seen["evidence"]["agreement"]
    assert seen["agreement"]["votes"] > 0
    assert [appeal["note"] for appeal in seen["appeals"]] == ["waits"]


def test_everybody_is_listed_worst_first_page_by_page(ask: Ask, crowd: list[str], refit: Ask, vote: Ask) -> None:
    refit()
    vote(annotator="newcomer")
    seen: list[Any] = []
    cursor: dict[str, str] = {}
    while True:
        page = ask("GET", "/annotators", params={"limit": 4, **cursor}).json()
        seen += page["items"]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert sorted(one["annotator"] for one in seen) == sorted([*crowd, "newcomer"])
    abilities = [one["ability"] for one in seen[:-1]]
    assert abilities == sorted(abilities)
    last = seen[-1]
    assert (last["annotator"], last["ability"], last["votes"], last["standing"]) == ("newcomer", None, 0, "pending")


def test_one_annotator_by_key_and_by_id(ask: Ask, crowd: list[str], refit: Ask, look_up: Ask) -> None:
    refit()
    found = look_up("honest 0")
    assert look_up(found["id"]) == found
    assert found["decisions"] == []
    summary = found["votes_summary"]
    assert summary["votes"] == 120 == sum(summary[name] for name in ("model_a", "model_b", "tie", "tie_bothbad"))
    assert summary["models"] == 6
    only = ask("GET", "/annotators", params={"annotator": "honest 0"}).json()["items"]
    assert [one["id"] for one in only] == [found["id"]]
    for unknown in ("nobody", "nul \x00", " "):
        assert ask("GET", "/annotators", params={"annotator": unknown}).json()["items"] == []


def test_the_rule_excludes_and_keeps_an_eye_on_them(
    ask: Ask, crowd: list[str], refit: Ask, change_policy: Ask, look_up: Ask
) -> None:
    change_policy(on_low_ability="exclude", max_excluded_share=0.5)
    assert refit()["state"] == "done"
    out = look_up("flip 12")
    assert (out["standing"], out["rule_standing"], out["override"]) == ("excluded", "excluded", None)
    assert out["ability"] is None
    assert out["shadow_ability"] < 0
    assert votes_used(ask) == 12 * 120


def test_exclude_reinstate_withdraw(ask: Ask, crowd: list[str], refit: Ask, decide: Ask, look_up: Ask) -> None:
    refit()
    taken = decide("honest 0", "exclude")
    assert (taken["action"], taken["reason"], taken["annotator"]["standing"]) == ("exclude", "a test", "excluded")
    assert taken["ability"] > 0
    assert votes_used(ask) == 14 * 120, "a decision shapes the next board, not the last"
    refit()
    assert votes_used(ask) == 13 * 120
    excluded = look_up("honest 0")
    assert (excluded["standing"], excluded["ability"]) == ("excluded", None)
    assert excluded["shadow_ability"] > 0.2

    decide("honest 0", "reinstate")
    refit()
    assert votes_used(ask) == 14 * 120
    assert (look_up("honest 0")["standing"], look_up("honest 0")["override"]) == ("active", "active")

    decide("honest 0", "withdraw")
    refit()
    assert (look_up("honest 0")["standing"], look_up("honest 0")["override"]) == ("active", None)
    assert [one["action"] for one in look_up("honest 0")["decisions"]] == ["withdraw", "reinstate", "exclude"]


@pytest.mark.parametrize(
    ("action", "standing"), [("reinstate", "active"), pytest.param("trust", "trusted", marks=pytest.mark.campaign)]
)
def test_a_decision_holds_against_the_rule(
    ask: Ask, crowd: list[str], refit: Ask, change_policy: Ask, decide: Ask, look_up: Ask, action: str, standing: str
) -> None:
    change_policy(on_low_ability="exclude", max_excluded_share=0.5)
    refit()
    decide("flip 12", action)
    refit()
    assert votes_used(ask) == 13 * 120
    assert look_up("flip 12")["standing"] == standing
    assert look_up("flip 12")["ability"] < 0
    decide("flip 12", "withdraw")
    refit()
    assert votes_used(ask) == 12 * 120


def test_trust_does_not_replace_votes(ask: Ask, crowd: list[str], refit: Ask, vote: Ask, decide: Ask) -> None:
    vote(annotator="newcomer")
    assert decide("newcomer", "trust")["annotator"]["standing"] == "pending"
    refit()
    assert votes_used(ask) == 14 * 120
    assert decide("newcomer", "exclude")["annotator"]["standing"] == "excluded"


def test_a_dismissed_flag_reopens_when_the_evidence_is_worse(
    ask: Ask, crowd: list[str], refit: Ask, vote: Ask, decide: Ask, look_up: Ask
) -> None:
    refit()
    before = look_up("flip 12")
    assert decide("flip 12", "dismiss")["annotator"]["standing"] == "active"
    refit()
    assert (look_up("flip 12")["standing"], look_up("flip 12")["rule_standing"]) == ("active", "flagged")
    assert [one["annotator"] for one in ask("GET", "/reviews").json()["items"]] == ["flip 13"]

    ranking = [row["model"] for row in ask("GET", "/leaderboard").json()["models"]]
    for _ in range(60):
        vote(annotator="flip 12", model_a=ranking[-1], model_b=ranking[0], winner="model_a")
    refit()
    worse = look_up("flip 12")
    assert worse["ability"] < before["ability"] - before["se"]
    assert worse["evidence"]["strength"] > before["evidence"]["strength"] + 1.0
    assert worse["standing"] == "flagged"
    history = ask("GET", "/annotators/flip 12/history").json()["items"]
    assert [(one["number"], one["standing"]) for one in history] == [(3, "flagged"), (2, "active"), (1, "flagged")]


def test_history_page_by_page(ask: Ask, crowd: list[str], refit: Ask) -> None:
    refit()
    refit()
    first = ask("GET", "/annotators/honest 1/history?limit=1").json()
    rest = ask("GET", f"/annotators/honest 1/history?limit=1&cursor={first['next_cursor']}").json()
    assert [one["number"] for one in first["items"] + rest["items"]] == [2, 1]
    assert rest["next_cursor"] is None


def test_what_is_refused(ask: Ask, assert_problem: Ask, crowd: list[str], refit: Ask, decide: Ask) -> None:
    refit()
    path = "/annotators/honest 0/decisions"
    conflict = ask("POST", path, json={"action": "dismiss", "reason": "no flag"})
    assert_problem(conflict, 409, "conflict")
    assert_problem(ask("POST", path, json={"action": "withdraw", "reason": "nothing to"}), 409, "conflict")
    decide("flip 12", "dismiss")
    again = ask("POST", "/annotators/flip 12/decisions", json={"action": "dismiss", "reason": "twice"})
    assert_problem(again, 409, "conflict")
    for body in (
        {"action": "exclude"},
        {"action": "exclude", "reason": " "},
        {"action": "ban", "reason": "a test"},
        {"action": "exclude", "reason": "a test", "until": "tomorrow"},
        {"action": "exclude", "reason": "x" * 2001},
    ):
        assert_problem(ask("POST", path, json=body), 422, "invalid")
    for unknown in ("nobody", uuid4(), "nul%00"):
        for tail in ("", "/history"):
            assert_problem(ask("GET", f"/annotators/{unknown}{tail}"), 404, "not-found")
        body = {"action": "exclude", "reason": "a test"}
        assert_problem(ask("POST", f"/annotators/{unknown}/decisions", json=body), 404, "not-found")
    assert_problem(ask("GET", "/annotators?standing=odd"), 422, "invalid")
    assert_problem(ask("GET", "/annotators?cursor=WzFd"), 422, "invalid")
    assert ask("GET", "/annotators/honest 0").json()["decisions"] == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/annotators"),
        ("GET", "/annotators/honest 0"),
        ("GET", "/annotators/honest 0/history"),
        ("GET", "/reviews"),
        ("POST", "/annotators/honest 0/decisions"),
    ],
)
def test_only_reviewers_see_annotators(ask: Ask, assert_problem: Ask, method: str, path: str) -> None:
    assert_problem(ask(method, path, scope=None), 401, "not-authenticated")
    for scope in ("ingest", "read"):
        assert_problem(ask(method, path, scope=scope), 403, "scope-missing")


def test_keys_with_slashes(ask: Ask, vote: Ask) -> None:
    for key in ("a/b", "a/b/", "/", "https://example.org/u?x=1#y", "a/votes"):
        vote(annotator=key)
        path = f"/annotators/{quote(key, safe='')}"
        for rest in ("/votes", "/history"):
            assert ask("GET", path + rest).status_code == 200, (key, rest)
        assert ask("POST", f"{path}/decisions", json={"action": "trust", "reason": "a test"}).status_code == 201
        assert ask("POST", f"{path}/appeals", scope="ingest", json={"note": "me"}).status_code == 201
        if key != "a/votes":  # which is taken for the votes of a: such a one by the id
            assert ask("GET", path).json()["annotator"] == key
    ids = {one["annotator"]: one["id"] for one in ask("GET", "/annotators").json()["items"]}
    assert ask("GET", f"/annotators/{ids['a/votes']}").json()["annotator"] == "a/votes"
    assert ask("GET", "/annotators/").status_code == 404
