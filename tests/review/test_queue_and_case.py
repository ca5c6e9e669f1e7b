"""What reviewers see of an annotator: votes, evidence, the queue."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from sqlalchemy import text

from app.database.engine import Database
from app.rating.units import ELO_PER_NATURAL

Ask = Callable[..., Any]


def pages(ask: Ask, path: str, limit: int, **chosen: str) -> list[Any]:
    seen: list[Any] = []
    cursor: dict[str, str] = {}
    while True:
        page = ask("GET", path, scope="review", params={"limit": limit, **chosen, **cursor}).json()
        seen += page["items"]
        if page["next_cursor"] is None:
            return seen
        cursor = {"cursor": page["next_cursor"]}


def note(database: Database, annotator: str, evidence: str) -> None:
    """Store what a refit's tests would have found."""
    with database.begin() as conn:
        statement = """UPDATE snapshot_annotators SET evidence = CAST(:evidence AS jsonb) FROM annotators
                       WHERE annotator_id = annotators.id AND key = :key"""
        assert conn.execute(text(statement), {"evidence": evidence, "key": annotator}).rowcount == 1


def set_figure(database: Database, annotator: str, name: str, value: float | None) -> None:
    """Store another figure than the refit found."""
    with database.begin() as conn:
        statement = f"""UPDATE snapshot_annotators SET {name} = :value FROM annotators
                        WHERE annotator_id = annotators.id AND key = :key"""
        assert conn.execute(text(statement), {"value": value, "key": annotator}).rowcount == 1


LOW = '{"rule": "ability", "held": false, "strength": 0.2, "tests": {"coin": 0.2}, "about": {}}'


def test_the_votes_of_one_annotator(ask: Ask, crowd: list[str], refit: Ask, vote: Ask) -> None:
    refit()
    vote(model_b="newcomer", voted_at="2026-01-02T03:04:05Z")
    one = pages(ask, "/annotators/honest 0/votes", 500)
    ask("POST", f"/votes/{one[3]['id']}/retract", json={"reason": "a test"})
    listed = pages(ask, "/annotators/honest 0/votes", 50)
    assert len(listed) == 121
    assert [row["id"] for row in listed] == [row["id"] for row in one] == sorted((r["id"] for r in one), reverse=True)
    assert [i for i, row in enumerate(listed) if row["retracted"]] == [3]
    newest = listed[0]
    assert (newest["model_b"], newest["winner"], newest["chance"]) == ("newcomer", "tie", None)
    assert newest["voted_at"] == "2026-01-02T03:04:05Z"
    detail = ask("GET", f"/votes/{listed[7]['id']}").json()
    assert {name: detail[name] for name in ("model_a", "model_b", "winner", "battle_id", "received_at")} == {
        name: listed[7][name] for name in ("model_a", "model_b", "winner", "battle_id", "received_at")
    }
    assert not newest["replaced"]


def test_chances_are_those_of_the_published_board(ask: Ask, crowd: list[str], refit: Ask) -> None:
    """P(left) + P(tie)/2 is what scores and ability say, for any verdicts on one pair."""
    refit()
    score = {row["model"]: row["score"] for row in ask("GET", "/leaderboard").json()["models"]}
    ability = ask("GET", "/annotators/flip 12").json()["ability"]
    votes = [row for row in pages(ask, "/annotators/flip 12/votes", 500) if row["chance"]]
    assert len(votes) == 120
    by_pair: dict[tuple[str, str], dict[str, Any]] = {}
    for row in votes:
        by_pair.setdefault((row["model_a"], row["model_b"]), {})[row["winner"]] = row["chance"]
    whole = [(pair, found) for pair, found in by_pair.items() if {"model_a", "tie"} <= found.keys()]
    assert whole
    for (a, b), found in whole:
        for name, how in (("probability", ability), ("typical_probability", 1.0)):
            p = 1 / (1 + np.exp(-how * (score[a] - score[b]) / ELO_PER_NATURAL))
            assert found["model_a"][name] + found["tie"][name] / 2 == pytest.approx(p, abs=1e-6)
    for row in votes:
        assert row["chance"]["surprising"] == (row["chance"]["typical_probability"] < 0.1)


def test_evidence_separates_the_contrary_from_the_honest(ask: Ask, crowd: list[str], refit: Ask) -> None:
    refit()
    flip, honest = (ask("GET", f"/annotators/{key}", scope="review").json() for key in ("flip 12", "honest 0"))
    case = flip["evidence"]
    assert (case["snapshot"], case["votes_considered"], case["ability_used"]) == (1, 120, flip["ability"])
    own, typical = case["agreement"]["expected"]
    assert (own["of"], typical["of"]) == ("own", "typical")
    assert typical["accuracy_z"] < -4
    assert typical["log_loss_z"] > 4
    assert abs(own["accuracy_z"]) < 3
    assert case["agreement"]["accuracy"] < 0.5 < typical["accuracy"]
    assert case["strength"] > 2
    assert any(sentence.startswith("The ability is −") for sentence in case["summary"])
    assert any("follow the leaderboard" in sentence for sentence in case["summary"])
    assert len(case["surprising"]) == 10
    chances = [one["chance"]["typical_probability"] for one in case["surprising"]]
    assert chances == sorted(chances)
    assert chances[-1] < 0.1
    ids = {row["id"] for row in pages(ask, "/annotators/flip 12/votes", 500)}
    assert {one["id"] for one in case["surprising"]} <= ids
    assert [one["number"] for one in case["history"]] == [1]
    laboratory = case["laboratory"]
    assert laboratory["findings"][0]["test"] == "coin"
    assert laboratory["findings"][0]["words"] in case["summary"]
    assert laboratory["strength"] == laboratory["findings"][0]["log10_ratio"] <= case["strength"] + 2

    fine = honest["evidence"]
    assert abs(fine["agreement"]["expected"][1]["accuracy_z"]) < 3
    assert fine["strength"] == 0
    assert fine["summary"] == []
    assert sum(row["votes"] for row in fine["models"]) == 240
    summary = honest["votes_summary"]
    tied = summary["tie"] + summary["tie_bothbad"]
    assert fine["ties"]["share"] == pytest.approx(tied / 120)
    assert fine["sides"]["left"] == pytest.approx(summary["model_a"] / (120 - tied))
    assert fine["pace"]["votes"] == 0, "they came in one batch"


def test_a_side_a_favourite_and_haste_are_described(ask: Ask, crowd: list[str], refit: Ask) -> None:
    pairs = [(a, b) for a in range(6) for b in range(6) if a != b] * 3
    batch = [
        {
            "model_a": f"model {a}",
            "model_b": f"model {b}",
            "annotator": "left",
            "winner": "model_a",
            "voted_at": f"2026-01-01T10:{i // 60:02}:{i % 60:02}Z",
        }
        for i, (a, b) in enumerate(pairs)
    ]
    assert ask("POST", "/votes/batch", json={"votes": batch}).status_code == 200
    refit()
    case = ask("GET", "/annotators/left").json()["evidence"]
    assert case["sides"]["left"] == 1.0
    assert case["sides"]["expected_left"] == pytest.approx(0.5, abs=0.01)
    assert case["sides"]["p_value"] < 1e-10
    assert (case["pace"]["votes"], case["pace"]["median_seconds"], case["pace"]["hasty"]) == (90, 1.0, 1.0)
    assert case["pace"]["longest_burst"]["votes"] == case["pace"]["busiest_hour"]["votes"] == 90
    assert case["pace"]["busiest_hour"]["since"] == "2026-01-01T10:00:00Z"
    said = " ".join(case["summary"])
    assert "The left model won 100 % of the decided votes" in said
    assert "the longest such run has 90 votes in 89 seconds" in said
    assert "0 % of the votes are ties" in said


def test_a_ranking_is_one_moment_and_has_no_sides(ask: Ask, crowd: list[str], refit: Ask) -> None:
    batch = [
        {
            "ranking": [["model 0"], ["model 1"], ["model 2"], ["model 5"]],
            "annotator": "orders",
            "voted_at": f"2026-01-01T10:{minute:02}:00Z",
        }
        for minute in range(60)
    ]
    assert ask("POST", "/votes/batch", json={"votes": batch}).status_code == 200
    refit()
    found = ask("GET", "/annotators/orders").json()
    summary, case = found["votes_summary"], found["evidence"]
    assert [summary[name] for name in ("votes", "models", "model_a", "model_b", "tie")] == [60, 4, 0, 0, 0]
    assert (case["pace"]["votes"], case["pace"]["median_seconds"], case["pace"]["hasty"]) == (60, 60.0, 0.0)
    assert ask("GET", "/annotators/orders/impact").json()["votes"] == 60
    assert (case["votes_considered"], case["sides"]["votes"], case["sides"]["left"]) == (60, 0, None)


def test_retracted_votes_are_no_evidence(ask: Ask, crowd: list[str], refit: Ask, database: Database) -> None:
    refit()
    ask("POST", "/retractions", json={"target": "annotator", "id": "flip 12", "reason": "a test"})
    shown = ask("GET", "/annotators/flip 12").json()
    case = shown["evidence"]
    assert (case["votes_considered"], case["agreement"]["accuracy"], case["surprising"]) == (0, None, [])
    assert (shown["votes_summary"]["votes"], shown["votes_summary"]["retracted"]) == (120, 120)
    assert case["summary"][0].startswith("All votes (120 votes on 6 models, received on ")
    assert len(case["history"]) == 1
    assert "No snapshot" not in " ".join(case["summary"])
    with database.begin() as conn:  # as retention leaves it
        conn.execute(text("DELETE FROM snapshot_annotators"))
    case = ask("GET", "/annotators/flip 12").json()["evidence"]
    assert case["history"] == []
    assert case["summary"][1].startswith("No snapshot has figures of the annotator")
    other = ask("GET", "/annotators/flip 13").json()
    assert other["votes_summary"]["retracted"] == 0
    assert not any("retracted" in sentence for sentence in other["evidence"]["summary"])


def test_before_the_first_board(ask: Ask, crowd: list[str]) -> None:
    assert ask("GET", "/annotators/honest 0").json()["evidence"] is None
    assert {row["chance"] for row in pages(ask, "/annotators/honest 0/votes", 500)} == {None}
    assert ask("GET", "/reviews").json() == {"items": [], "next_cursor": None}


def test_a_new_annotator_is_compared_with_the_typical_one(ask: Ask, crowd: list[str], refit: Ask, vote: Ask) -> None:
    refit()
    vote(annotator="new", winner="model_a")
    case = ask("GET", "/annotators/new").json()["evidence"]
    assert (case["ability_used"], case["votes_considered"], case["strength"]) == (1.0, 1, 0)
    own, typical = case["agreement"]["expected"]
    assert own["accuracy"] == typical["accuracy"]


def test_the_queue_has_the_strongest_reason_first(ask: Ask, crowd: list[str], refit: Ask, database: Database) -> None:
    refit()
    first = ask("GET", "/reviews", scope="review").json()["items"]
    assert {one["annotator"] for one in first} == {"flip 12", "flip 13"}
    assert all("at random or against the leaderboard" in " ".join(one["evidence"]["words"]) for one in first)
    for weaker, stronger in (("flip 12", "flip 13"), ("flip 13", "flip 12")):
        note(database, weaker, LOW)
        found = (
            '{"rule": "favour", "held": true, "strength": 42.5, "tests": {"coin": 1.4, "favour": 42.5}, '
            '"about": {"favour": "model 3"}}'
        )
        note(database, stronger, found)
        queue = pages(ask, "/reviews", 1)
        assert [one["annotator"] for one in queue] == [stronger, weaker]
        reason = queue[0]["evidence"]
        assert (reason["strength"], reason["rule"], reason["held"]) == (40.5, "favour", True)
        assert queue[0]["evidence"]["words"][0] == (
            "The odds are more than a million to one that this is an annotator who always votes for model 3 and "
            "otherwise honestly."
        )
        assert [one["evidence"]["strength"] for one in queue] == sorted(
            (one["evidence"]["strength"] for one in queue), reverse=True
        )
        for one in queue:
            assert ask("GET", f"/annotators/{one['id']}").json()["evidence"]["strength"] == pytest.approx(
                one["evidence"]["strength"]
            )
    laboratory = ask("GET", "/annotators/flip 12").json()["evidence"]["laboratory"]
    assert [one["test"] for one in laboratory["findings"]] == ["favour", "coin"]


def test_the_strength_is_the_stronger_of_test_and_ability(
    ask: Ask, crowd: list[str], refit: Ask, database: Database
) -> None:
    refit()
    for strength, low, expected in (
        ("3.5", None, 1.5),
        ("3.5", 0.5, 1.5),
        ("3.5", 0.999, np.log10(999)),
        ("0.2", 1.0, 16.0),
        ("1.5", 0.01, 0.0),
        ("null", 0.9, np.log10(9)),
    ):
        note(database, "flip 12", f'{{"rule": "ability", "strength": {strength}}}')
        set_figure(database, "flip 12", "probability_low", low)
        assert ask("GET", "/annotators/flip 12").json()["evidence"]["strength"] == pytest.approx(expected)


def test_the_watch_list_says_why_there_is_no_flag(ask: Ask, crowd: list[str], refit: Ask, database: Database) -> None:
    refit()
    assert ask("GET", "/reviews?watch=true", scope="review:read").json()["items"] == []
    for name, low in (("honest 0", 0.9), ("honest 1", 0.99), ("honest 2", 0.6)):
        set_figure(database, name, "ability", 0.1)
        set_figure(database, name, "probability_low", low)
    note(database, "honest 1", '{"rule": null, "held": false, "strength": null, "tests": {}, "judges": 8.4}')
    set_figure(database, "honest 3", "ability", 0.21)
    for name, action in (("flip 12", "trust"), ("flip 13", "dismiss")):
        ask("POST", f"/annotators/{name}/decisions", json={"action": action, "reason": "a test"})
    watched = pages(ask, "/reviews", 2, watch="true")
    why = {one["annotator"]: one["evidence"]["not_flagged"] for one in watched}
    assert why == {
        "honest 0": "Not flagged: the ability is at or below ε with 90.0 % probability; the rule asks for 95 %.",
        "honest 1": "Not flagged: only 8 judges stand behind the scores of these models.",
        "honest 2": "Not flagged: the ability is at or below ε with 60.0 % probability; the rule asks for 95 %.",
        "flip 12": "Not flagged: an admin trusts this annotator.",
        "flip 13": "Not flagged: an admin dismissed the flag.",
    }
    strengths = [one["evidence"]["strength"] for one in watched]
    assert strengths == sorted(strengths, reverse=True)
    case = ask("GET", "/annotators/honest 1").json()["evidence"]
    assert why["honest 1"] in case["summary"]
    assert case["laboratory"]["judges"] == 8.4
    judged = next(one["evidence"]["judged"] for one in watched if one["annotator"] == "honest 0")
    assert (judged["kind"], judged["value"]) == ("ability", 0.1)
    ask("POST", "/annotators/honest 2/decisions", json={"action": "exclude", "reason": "a test"})
    ask("POST", "/annotators/flip 13/decisions", json={"action": "reinstate", "reason": "a test"})
    after = {one["annotator"]: one["evidence"]["not_flagged"] for one in pages(ask, "/reviews", 9, watch="true")}
    assert after == {
        **{name: why[name] for name in ("honest 0", "honest 1", "flip 12")},
        "flip 13": "Not flagged: an admin reinstated this annotator.",
    }


def test_every_low_ability_has_its_sentence(
    ask: Ask, crowd: list[str], refit: Ask, database: Database, vote: Ask
) -> None:
    """Why there is no flag, in words that agree with the figures beside them."""
    for winner in ("model_a", "model_b") * 5:
        vote(annotator="new", winner=winner, battle_id=str(uuid4()))
    refit()
    for name, ability, low in (("honest 0", 0.1, 0.88), ("honest 1", 0.201, 0.49)):
        set_figure(database, name, "ability", ability)
        set_figure(database, name, "probability_low", low)
    set_figure(database, "new", "shadow_ability", -0.5)

    def why(name: str) -> list[str]:
        said = ask("GET", f"/annotators/{name}").json()["evidence"]["summary"]
        return [sentence for sentence in said if sentence.startswith("Not flagged")]

    assert why("honest 0") == [
        "Not flagged: the ability is at or below ε with 88.0 % probability; the rule asks for 95 %."
    ]
    for stored, asked in (("'{min_probability}', '0.9'::jsonb", "90 %"), (None, "95 %")):
        changed = "settings - 'min_probability'" if stored is None else f"jsonb_set(settings, {stored})"
        with database.begin() as conn:  # as of another policy, and of a release that had no such setting
            conn.execute(text(f"UPDATE snapshots SET settings = {changed}"))
        assert why("honest 0")[0].endswith(f"; the rule asks for {asked}.")
    assert why("honest 1") == [], "no ability that is shown is at or below ε"
    assert why("new") == ["Not flagged: the rule does not judge this annotator yet: with 10 votes, not more than 50."]
    assert why("flip 12") == []
    assert {one["annotator"] for one in pages(ask, "/reviews", 9, watch="true")} == {"honest 0"}


def test_a_flag_has_its_reason_however_weak(ask: Ask, crowd: list[str], refit: Ask, database: Database) -> None:
    refit()
    note(database, "flip 12", '{"rule": "side", "held": false, "strength": 0.5, "tests": {"side": 0.5}, "about": {}}')
    set_figure(database, "flip 12", "probability_low", 0.1)
    listed = {one["annotator"]: one["evidence"]["words"] for one in ask("GET", "/reviews").json()["items"]}
    assert "1 to 32" in listed["flip 12"][0]


def test_erased_is_shown_by_a_pseudonym_only(ask: Ask, crowd: list[str], refit: Ask) -> None:
    refit()
    vote = {"model_a": "model 0", "model_b": "model 1", "winner": "tie", "annotator": "flip 12"}
    ask("POST", "/votes", json={**vote, "metadata": {"mail": "flip 12"}})
    erased = ask("POST", "/annotators/flip 12/erase", json={"reason": "a test"}).json()
    for path in ("", "/votes?limit=500"):
        answer = ask("GET", f"/annotators/{erased['id']}{path}")
        assert answer.status_code == 200
        assert "flip 12" not in answer.text
        assert "metadata" not in answer.text


def test_what_is_refused(ask: Ask, assert_problem: Ask, crowd: list[str]) -> None:
    for path in ("/annotators/nobody/votes", f"/annotators/{uuid4()}/votes"):
        assert_problem(ask("GET", path), 404, "not-found")
    for path in ("/annotators/honest 0/votes", "/reviews"):
        assert_problem(ask("GET", path, params={"cursor": "x"}), 422, "invalid")
        assert_problem(ask("GET", path, scope="read"), 403, "scope-missing")
        assert_problem(ask("GET", path, scope=None), 401, "not-authenticated")
