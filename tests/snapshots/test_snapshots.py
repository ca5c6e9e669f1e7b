from collections.abc import Callable
from typing import Any

import pytest

Ask = Callable[..., Any]


def test_a_snapshot_says_how_it_was_made(ask: Ask, crowd: list[str], refit: Ask) -> None:
    done = refit()
    snapshot = ask("GET", "/snapshots/1", scope=None).json()
    assert ask("GET", f"/snapshots/{done['snapshot_id']}", scope=None).json() == snapshot
    assert snapshot["settings"]["min_votes"] == 50
    assert snapshot["settings"]["method"] == "am-elo"
    assert snapshot["diagnostics"]["converged"]
    assert set(snapshot["diagnostics"]["seconds"]) >= {"read", "aggregate", "fit", "intervals"}
    assert len(snapshot["votes_hash"]) == 64
    assert snapshot["vote_set"].count(":") == 2


def test_snapshots_never_change(ask: Ask, crowd: list[str], refit: Ask, change_policy: Ask, vote: Ask) -> None:
    refit()
    before = [ask("GET", path).text for path in ("/snapshots/1", "/leaderboard?snapshot=1&format=csv")]
    change_policy(base=1500.0, on_low_ability="exclude", max_excluded_share=1.0)
    vote(winner="model_a")
    refit()
    assert [ask("GET", path).text for path in ("/snapshots/1", "/leaderboard?snapshot=1&format=csv")] == before
    assert ask("GET", "/leaderboard?format=csv").text != before[1]


def test_snapshots_are_listed_newest_first_page_by_page(ask: Ask, crowd: list[str], refit: Ask) -> None:
    assert ask("GET", "/snapshots", scope=None).json() == {"items": [], "next_cursor": None}
    ids = [refit()["snapshot_id"] for _ in range(3)]
    first = ask("GET", "/snapshots", params={"limit": 2}).json()
    rest = ask("GET", "/snapshots", params={"limit": 2, "cursor": first["next_cursor"]}).json()
    assert [item["id"] for item in first["items"] + rest["items"]] == ids[::-1]
    assert rest["next_cursor"] is None


@pytest.mark.parametrize(
    "reference", ["7", "0193f0a0-0000-7000-8000-000000000000", "newest", "99999999999999999999", "-1", "\u0661"]
)
def test_an_unknown_snapshot(ask: Ask, assert_problem: Ask, crowd: list[str], refit: Ask, reference: str) -> None:
    refit()
    assert_problem(ask("GET", f"/snapshots/{reference}"), 404, "not-found")
    assert_problem(ask("GET", "/leaderboard", params={"snapshot": reference}), 404, "not-found")


def test_a_cursor_of_another_list(ask: Ask, assert_problem: Ask) -> None:
    assert_problem(ask("GET", "/snapshots", params={"cursor": "e30"}), 422, "invalid")
