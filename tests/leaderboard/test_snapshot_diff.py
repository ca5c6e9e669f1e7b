from collections.abc import Callable
from typing import Any

import pytest

Ask = Callable[..., Any]


def test_nothing_changed(ask: Ask, crowd: list[str], refit: Ask) -> None:
    refit()
    refit()
    diff = ask("GET", "/snapshots/1/diff/2", scope=None).json()
    assert (diff["before"]["number"], diff["after"]["number"]) == (1, 2)
    assert diff["causes"]["same_votes"]
    assert diff["causes"]["settings"] == {}
    assert set(diff["causes"]["annotators"].values()) == {0}
    assert all(row["change"] == 0 and not row["beyond_interval"] for row in diff["models"])
    assert diff["summary"] == [
        "No model changed its rank or left its interval.",
        "Both were made from exactly the same votes.",
    ]


def test_exclusions_and_a_policy(ask: Ask, crowd: list[str], refit: Ask, change_policy: Ask) -> None:
    refit()
    change_policy(on_low_ability="exclude", max_excluded_share=1.0, base=1200.0)
    refit()
    diff = ask("GET", "/snapshots/1/diff/2").json()
    changes = diff["causes"]["annotators"]
    assert (changes["newly_excluded"], changes["newly_excluded_votes"], changes["entered"]) == (2, 240, 0)
    assert diff["causes"]["settings"] == {"base": [1000.0, 1200.0], "exclude": [False, True]}
    boards = [ask("GET", f"/leaderboard?snapshot={n}").json()["models"] for n in (1, 2)]
    before, after = ({row["model"]: row for row in board} for board in boards)
    for row in diff["models"]:
        old, new = before[row["model"]], after[row["model"]]
        assert row["change"] == pytest.approx(new["score"] - old["score"])
        assert row["beyond_interval"] == (not old["lower"] <= new["score"] <= old["upper"])
    assert [row["model"] for row in diff["models"]] == [row["model"] for row in boards[1]]
    assert "2 annotators newly excluded, with 240 votes." in diff["summary"]
    assert "The setting base changed from 1000.0 to 1200.0." in diff["summary"]
    # and back again
    changes = ask("GET", "/snapshots/2/diff/1").json()["causes"]["annotators"]
    assert (changes["entered"], changes["newly_flagged"], changes["newly_excluded"]) == (2, 2, 0)


@pytest.mark.comparisons
def test_a_new_model(ask: Ask, crowd: list[str], refit: Ask, vote: Ask, change_policy: Ask) -> None:
    change_policy(min_model_votes=12)
    refit()
    for k in range(12):
        vote(model_b="newcomer", annotator=f"honest {k}", winner="model_a" if k % 3 else "model_b")
    refit()
    diff = ask("GET", "/snapshots/1/diff/2").json()
    newcomer = next(row for row in diff["models"] if row["model"] == "newcomer")
    assert (newcomer["kind"], newcomer["change"], newcomer["votes_after"]) == ("entered", None, 12)
    assert f"newcomer is new, at rank {newcomer['rank_after']}." in diff["summary"]
    assert "+12 votes on record, +12 that count." in diff["summary"]
    back = ask("GET", "/snapshots/2/diff/1?method=m-elo").json()
    assert (back["models"][-1]["model"], back["models"][-1]["kind"]) == ("newcomer", "left")


def test_a_quota_is_named_and_what_it_splits_is_not_compared(
    ask: Ask, halves: None, refit: Ask, change_policy: Ask
) -> None:
    refit()
    change_policy(max_votes_per_day=12)
    refit()
    diff = ask("GET", "/snapshots/1/diff/2").json()
    assert diff["causes"]["settings"] == {"max_votes_per_day": [None, 12]}
    assert (diff["causes"]["votes_read"], diff["causes"]["votes_used"]) == (0, -3)
    assert [line for line in diff["summary"] if "changed" in line] == [
        "The policy changed from version 2 to 3.",
        "The setting max_votes_per_day changed from none to 12.",
    ]
    boards = [ask("GET", f"/leaderboard?snapshot={n}").json()["models"] for n in (1, 2)]
    for side, board in zip(("before", "after"), boards, strict=True):
        shown = {row["model"]: (row["component"], row["identified"], row["rank"]) for row in board}
        fields = [f"{name}_{side}" for name in ("component", "identified", "rank")]
        assert {row["model"]: tuple(row[name] for name in fields) for row in diff["models"]} == shown
    assert {row["component_after"] for row in diff["models"]} == {0, 1}
    assert {(row["comparable"], row["change"], row["beyond_interval"]) for row in diff["models"]} == {
        (False, None, None)
    }
    said = [line for line in diff["summary"] if "now compared with other models" in line]
    assert sorted(name for line in said for name in line.replace(",", " ").split() if name[1:].isdigit()) == [
        f"{half}{i}" for half in "ab" for i in range(4)
    ]
    assert not any("rose" in line or "fell" in line for line in diff["summary"])


def test_a_quota_that_takes_scores_away(ask: Ask, halves: None, refit: Ask, change_policy: Ask) -> None:
    change_policy(max_votes_per_day=20)
    refit()
    change_policy(max_votes_per_day=5)
    refit()
    diff = ask("GET", "/snapshots/1/diff/2").json()
    assert diff["causes"]["settings"] == {"max_votes_per_day": [20, 5]}
    lost = [row["model"] for row in diff["models"] if row["identified_before"] and not row["identified_after"]]
    assert sorted(lost) == ["b0", "b1", "b2", "b3"]
    assert diff["summary"][:4] == [f"{model} no longer has a score." for model in lost]
    assert not any("rose" in line or "fell" in line for line in diff["summary"])
    back = ask("GET", "/snapshots/2/diff/1").json()["summary"]
    assert sum("now has a score: " in line for line in back) == 4


def test_a_policy_that_no_score_depends_on(ask: Ask, crowd: list[str], refit: Ask, change_policy: Ask) -> None:
    refit()
    change_policy(refit_interval_seconds=900)
    refit()
    diff = ask("GET", "/snapshots/1/diff/2").json()
    assert (diff["causes"]["settings"], diff["causes"]["policy_version"]) == ({}, [1, 2])
    assert diff["summary"][-1] == "The policy changed from version 1 to 2."


def test_what_is_refused(ask: Ask, assert_problem: Ask, crowd: list[str], refit: Ask) -> None:
    refit()
    assert_problem(ask("GET", "/snapshots/1/diff/2"), 404, "not-found")
    assert_problem(ask("GET", "/snapshots/9/diff/1"), 404, "not-found")
    assert_problem(ask("GET", "/snapshots/1/diff/1?method=x"), 422, "invalid")
