import csv
import io
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest

from app.rating.settings import LoopSettings
from app.rating.simulation.worlds import simulate_votes
from app.rating.verdict.round import run_round
from app.rating.votes.cells import aggregate
from tests.fixtures.crowds import RANK_EVERYTHING

Ask = Callable[..., Any]

COLUMNS = [
    "model", "score", "se", "lower", "upper", "rank", "best_rank", "worst_rank",
    "rank_set_best", "rank_set_worst", "class_rank", "votes", "wins", "ties", "losses", "component", "identified",
    "provisional", "organization", "license", "link", "tied", "tied_with",
]  # fmt: skip


def test_before_the_first_snapshot(ask: Ask, assert_problem: Ask) -> None:
    def told() -> str:
        problem: str = assert_problem(ask("GET", "/leaderboard", scope=None), 404, "no-snapshot")["detail"]
        return problem

    nothing = told()
    assert "0 votes on record; a first leaderboard needs 5 annotators with more than 50 votes each" in nothing
    assert nothing.endswith("; no refit is due before that")
    votes = [{"model_a": "a", "model_b": "b", "winner": "tie", "annotator": who} for who in ("ann", *["bob"] * 3)]
    ask("POST", "/votes/batch", json={"votes": votes})
    some = told()
    assert "4 votes on record" in some
    assert some.endswith("the most votes of one annotator are 3; no refit is due before that")
    assert "bob" not in some


@pytest.mark.usefixtures("crowd")
def test_before_the_first_snapshot_the_problem_says_when_a_refit_is_due(
    ask: Ask, assert_problem: Ask, change_policy: Ask, refit: Ask
) -> None:
    def told() -> str:
        problem: str = assert_problem(ask("GET", "/leaderboard", scope=None), 404, "no-snapshot")["detail"]
        return problem

    assert told().endswith("; a refit is due now")
    change_policy(min_board_votes=10**6)
    assert refit()["state"] == "failed"
    change_policy(min_board_votes=200)
    assert re.search(r"; the next refit is due at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$", told())


def test_the_leaderboard_is_that_of_the_loop(ask: Ask, crowd: list[str], refit: Ask) -> None:
    done = refit()
    board = ask("GET", "/leaderboard", scope=None).json()
    assert list(board) == [
        "published_at", "age_seconds", "votes_not_in_board", "stale", "next_refit_due_at",
        "snapshot", "method", "tag", "of", "models", "archived", "diagnostics",
    ]  # fmt: skip
    assert list(board["snapshot"]) == [
        "id", "number", "published_at", "policy_version", "votes_read", "votes_used", "votes_sealed", "votes_hash",
    ]  # fmt: skip
    assert (board["snapshot"]["id"], board["method"]) == (done["snapshot_id"], "am-elo")
    assert (board["snapshot"]["votes_read"], board["snapshot"]["votes_used"]) == (1680, 1680)
    assert all(list(row) == [*COLUMNS, "compared"] for row in board["models"])
    assert [row["rank"] for row in board["models"]] == [1, 2, 3, 4, 5, 6]

    votes = simulate_votes(5, n_models=6, roles={"honest": 12, "flip": 2}, votes_each=120)
    cells = aggregate(votes.annotator, votes.model_a, votes.model_b, votes.outcome, n_annotators=14, n_models=6)
    expected = run_round(cells, LoopSettings()).models
    published = {row["model"]: row for row in board["models"]}
    for field in ("score", "se", "lower", "upper", "votes", "wins", "ties", "losses"):
        got = [published[f"model {i}"][field] for i in range(6)]
        np.testing.assert_allclose(got, getattr(expected, field), rtol=1e-9)


@pytest.mark.comparisons
def test_both_methods_are_published(ask: Ask, crowd: list[str], refit: Ask) -> None:
    refit()
    plain = ask("GET", "/leaderboard", params={"method": "m-elo"}).json()
    weighted = ask("GET", "/leaderboard", params={"method": "am-elo"}).json()
    assert plain["method"] == "m-elo"
    assert [row["votes"] for row in sorted(plain["models"], key=lambda row: row["model"])] == [
        row["votes"] for row in sorted(weighted["models"], key=lambda row: row["model"])
    ]
    spread = {
        board["method"]: board["models"][0]["score"] - board["models"][-1]["score"] for board in (plain, weighted)
    }
    assert spread["m-elo"] < spread["am-elo"], "annotators who vote against the truth flatten Bradley-Terry"


def test_csv_has_the_same_rows(ask: Ask, crowd: list[str], refit: Ask) -> None:
    refit()
    answer = ask("GET", "/leaderboard?format=csv", scope=None)
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    models = ask("GET", "/leaderboard").json()["models"]
    assert list(rows[0]) == [*COLUMNS, "method", "tag"]
    assert [row["model"] for row in rows] == [row["model"] for row in models]
    assert [float(row["score"]) for row in rows] == [row["score"] for row in models]


def test_csv_is_no_formula(ask: Ask, change_policy: Ask, vote: Ask, refit: Ask) -> None:
    change_policy(**RANK_EVERYTHING, min_votes=0)
    for winner in ("model_a", "model_b", "model_a"):
        vote(model_a="=cmd|' /C calc'!A0", winner=winner)
    assert refit()["state"] == "done"
    names = [row["model"] for row in csv.DictReader(io.StringIO(ask("GET", "/leaderboard?format=csv").text))]
    assert "'=cmd|' /C calc'!A0" in names


@pytest.mark.comparisons
def test_a_cache_gets_304_while_nothing_changed(ask: Ask, crowd: list[str], refit: Ask, vote: Ask) -> None:
    refit()
    tag = ask("GET", "/leaderboard").headers["etag"]
    for named in (tag, tag.removeprefix("W/"), f'"other", {tag}', "*"):
        unchanged = ask("GET", "/leaderboard", headers={"If-None-Match": named})
        assert (unchanged.status_code, unchanged.content, unchanged.headers["etag"]) == (304, b"", tag)
    for other in ("?method=m-elo", "?format=csv"):
        assert ask("GET", f"/leaderboard{other}", headers={"If-None-Match": tag}).status_code == 200
    vote()
    changed = ask("GET", "/leaderboard", headers={"If-None-Match": tag})
    assert changed.status_code == 200
    assert changed.json()["votes_not_in_board"] == 1


def test_a_leaderboard_of_the_past(ask: Ask, assert_problem: Ask, crowd: list[str], refit: Ask) -> None:
    refit()
    refit()
    first, second = (ask("GET", f"/leaderboard?snapshot={number}").json()["snapshot"] for number in (1, 2))
    assert ask("GET", f"/leaderboard?snapshot={first['id']}").json()["snapshot"] == first
    published = [datetime.fromisoformat(snapshot["published_at"]) for snapshot in (first, second)]
    moments = [published[0], published[1] - timedelta(microseconds=1), published[1]]
    numbers = [
        ask("GET", "/leaderboard", params={"as_of": moment.isoformat()}).json()["snapshot"]["number"]
        for moment in moments
    ]
    assert numbers == [1, 1, 2]
    before = (published[0] - timedelta(microseconds=1)).isoformat()
    assert_problem(ask("GET", "/leaderboard", params={"as_of": before}), 404, "no-snapshot")


@pytest.mark.parametrize(
    "query",
    [
        "method=pagerank",
        "format=xml",
        "as_of=yesterday",
        "as_of=2026-01-01T00:00:00",
        "as_of=2026-01-01T00:00:00Z&snapshot=1",
    ],
)
def test_what_is_refused(ask: Ask, assert_problem: Ask, query: str) -> None:
    assert_problem(ask("GET", f"/leaderboard?{query}"), 422, "invalid")
