"""Why models moved: what every cause contributes, beside snapshots in which it alone was at work."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from sqlalchemy import text

from app.database.engine import Database
from app.review.impact.fits import ReviewFits

Ask = Callable[..., Any]

pytestmark = pytest.mark.usefixtures("without_a_child")


def causes(ask: Ask, before: int, after: int, **more: str) -> Any:
    answer = ask("GET", f"/snapshots/{before}/diff/{after}", scope="review", params={"causes": "true", **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def parts(diff: Any, name: str) -> dict[str, float]:
    return {row["model"]: row["because"][name] for row in diff["models"]}


def score(ask: Ask, number: int, method: str = "am-elo") -> dict[str, float]:
    rows = ask("GET", f"/leaderboard?snapshot={number}&method={method}").json()["models"]
    return {row["model"]: row["score"] for row in rows}


def test_parts_add_up_and_each_is_what_the_cause_alone_did(
    ask: Ask, crowd: list[str], refit: Ask, change_policy: Ask, vote: Ask, database: Database
) -> None:
    """Snapshots 2 and 3 stand where the comparison of 1 and 4 has to refit."""
    refit()
    change_policy(ability_cap=1.3, base=1200.0)
    refit()
    ask("POST", "/annotators/flip 12/decisions", json={"action": "exclude", "reason": "a test"})
    refit()
    for k in range(8):
        vote(annotator=f"honest {k}", winner="model_b")
    listed = ask("GET", "/annotators/honest 9/votes?limit=20").json()["items"]
    for one in listed:
        ask("POST", f"/votes/{one['id']}/retract", json={"reason": "a test"})
    refit()
    diff = causes(ask, 1, 4)
    states = [score(ask, number) for number in (1, 2, 3, 4)]
    for name, (old, new) in {"policy": (0, 1), "crowd": (1, 2), "votes": (2, 3)}.items():
        true = {model: states[new][model] - states[old][model] for model in states[0]}
        assert parts(diff, name) == pytest.approx(true, abs=1e-4), name
        assert max(map(abs, true.values())) > 0.5
    for row in diff["models"]:
        assert sum(row["because"].values()) == pytest.approx(row["change"], abs=1e-9)
    assert any(line.startswith("On average the policy moved a model by 200.") for line in diff["summary"])
    furthest = max(diff["models"], key=lambda row: abs(row["change"]))
    assert any(
        line.startswith(f"{furthest['model']} moved {furthest['change']:+.1f} points") for line in diff["summary"]
    )

    plain = ask("GET", "/snapshots/1/diff/4").json()
    assert {row["because"] for row in plain["models"]} == {None}
    assert plain["summary"] == diff["summary"][: len(plain["summary"])]

    both = causes(ask, 1, 4, method="m-elo")
    states = [score(ask, number, "m-elo") for number in (1, 2, 3, 4)]
    assert parts(both, "votes") == pytest.approx({m: states[3][m] - states[2][m] for m in states[0]}, abs=1e-4)

    # an old snapshot without its annotators is run again to find them
    with database.begin() as conn:
        conn.execute(
            text("DELETE FROM snapshot_annotators WHERE snapshot_id IN (SELECT id FROM snapshots WHERE number = 2)")
        )
        conn.execute(text("UPDATE snapshots SET crowd_pruned_at = now() WHERE number = 2"))
    later = causes(ask, 2, 4)
    true = {model: score(ask, 3)[model] - score(ask, 2)[model] for model in states[0]}
    assert parts(later, "crowd") == pytest.approx(true, abs=1e-4)
    assert set(parts(later, "policy").values()) == {0.0}


def test_one_cause_needs_no_refit(
    ask: Ask, crowd: list[str], refit: Ask, change_policy: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    refit()
    ask("POST", "/annotators/flip 12/decisions", json={"action": "exclude", "reason": "a test"})
    refit()
    refit()
    monkeypatch.setattr(ReviewFits, "_call", None)
    change_policy(refit_interval_seconds=900, min_ability=0.15)  # nobody's standing hangs on it
    refit()
    assert {sum(row["because"].values()) for row in causes(ask, 3, 4)["models"]} == {0.0}
    diff = causes(ask, 1, 2)
    assert parts(diff, "crowd") == pytest.approx({row["model"]: row["change"] for row in diff["models"]})
    assert set(parts(diff, "policy").values()) == set(parts(diff, "votes").values()) == {0.0}
    assert {sum(row["because"].values()) for row in causes(ask, 2, 3)["models"]} == {0.0}


def test_what_a_retraction_took_is_not_put_on_who_counts(
    ask: Ask, crowd: list[str], refit: Ask, database: Database
) -> None:
    """Nobody judged the annotator whose votes are gone, and everybody else counts as before."""
    refit()
    retracted = ask("POST", "/retractions", json={"target": "annotator", "id": "honest 0", "reason": "a test"})
    assert retracted.json()["votes"] == 120
    refit()
    diff = causes(ask, 1, 2)
    assert (diff["causes"]["votes_used"], set(diff["causes"]["annotators"].values())) == (-120, {0})
    assert max(abs(row["change"]) for row in diff["models"]) > 0.5
    assert {row["because"]["crowd"] for row in diff["models"]} == {0.0}
    assert parts(diff, "votes") == pytest.approx({row["model"]: row["change"] for row in diff["models"]})
    assert any("who counts by 0.0, new and retracted votes by" in line for line in diff["summary"])
    assert set(parts(causes(ask, 2, 1), "crowd").values()) == {0.0}, "nor what came back, put on who is new"

    # the same of a later snapshot that has let go of its annotators
    refit()
    with database.begin() as conn:
        conn.execute(
            text("DELETE FROM snapshot_annotators WHERE snapshot_id IN (SELECT id FROM snapshots WHERE number = 3)")
        )
        conn.execute(text("UPDATE snapshots SET crowd_pruned_at = now() WHERE number = 3"))
    assert set(parts(causes(ask, 1, 3), "crowd").values()) == {0.0}


def test_who_is_out_by_a_decision_and_loses_votes_is_put_on_who_counts(ask: Ask, crowd: list[str], refit: Ask) -> None:
    refit()
    ask("POST", "/annotators/flip 12/decisions", json={"action": "exclude", "reason": "a test"})
    refit()
    listed = ask("GET", "/annotators/flip 12/votes?limit=5").json()["items"]
    for one in listed:
        ask("POST", f"/votes/{one['id']}/retract", json={"reason": "a test"})
    refit()
    before, after = score(ask, 1), score(ask, 2)
    diff = causes(ask, 1, 3)
    assert parts(diff, "crowd") == pytest.approx({model: after[model] - before[model] for model in before}, abs=1e-4)
    assert parts(diff, "votes") == pytest.approx(dict.fromkeys(before, 0.0), abs=1e-4)


def test_no_parts_across_components(ask: Ask, halves: None, refit: Ask, change_policy: Ask, vote: Ask) -> None:
    """A quota splits the board; other votes then join it again, so that only what lies between is in two halves."""
    refit()
    change_policy(max_votes_per_day=12)
    for k in range(4):
        for i, j in product(range(4), range(3)):
            winner = "tie" if i == j else "model_a" if i < j else "model_b"
            vote(model_a=f"a{i}", model_b=f"b{j}", annotator=f"new {k}", winner=winner)
    refit()
    diff = causes(ask, 1, 2)
    assert all(row["same_company"] and row["change"] is not None for row in diff["models"])
    assert [row["because"] for row in diff["models"]] == [None] * 8


def test_a_new_model_has_no_parts(ask: Ask, crowd: list[str], refit: Ask, vote: Ask) -> None:
    refit()
    for k in range(12):
        vote(model_b="newcomer", annotator=f"honest {k}", winner="model_a" if k % 3 else "model_b")
    refit()
    diff = causes(ask, 1, 2)
    newcomer = next(row for row in diff["models"] if row["model"] == "newcomer")
    assert newcomer["because"] is None
    for row in diff["models"]:
        if row is not newcomer:
            assert row["because"] == {"policy": 0.0, "crowd": 0.0, "votes": pytest.approx(row["change"])}


def test_what_is_refused(
    ask: Ask, assert_problem: Ask, crowd: list[str], refit: Ask, vote: Ask, database: Database
) -> None:
    refit()
    vote()
    refit()
    path = "/snapshots/1/diff/2?causes=true"
    assert_problem(ask("GET", path, scope=None), 401, "not-authenticated")
    assert_problem(ask("GET", path, scope="read"), 403, "scope-missing")
    assert_problem(ask("GET", "/snapshots/1/diff/2?causes=x"), 422, "invalid")
    assert ask("GET", "/snapshots/1/diff/2?causes=false", scope=None).status_code == 200
    with database.begin() as conn:
        conn.execute(text("UPDATE votes SET recorded_in = '4000000000'"))
    assert_problem(ask("GET", path), 409, "not-reproducible")
