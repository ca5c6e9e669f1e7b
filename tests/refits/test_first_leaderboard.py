"""The least annotators and votes of a first leaderboard, and of a model's rank."""

import csv
import io
from collections.abc import Callable
from typing import Any

import pytest
from httpx import Client
from sqlalchemy import text

from app.database.engine import Database
from app.refits.schedule import due_trigger
from app.refits.schemas import Refit

Ask = Callable[..., Any]


@pytest.mark.parametrize(
    ("annotators", "policy", "missing"),
    [
        (1, {}, "there are 1 annotator with 120 votes"),
        (3, {}, "needs 5 annotators with more than 50 votes each"),
        (3, {"min_board_annotators": 3, "min_board_votes": 361}, "and 361 votes of theirs; there are 3 annotators"),
        (5, {"min_votes": 120}, "the most votes of one annotator are 120"),
    ],
)
def test_too_few_votes_publish_no_first_leaderboard(
    database: Database,
    store_crowd: Callable[..., None],
    store_policy: Callable[..., None],
    run_refit: Callable[..., Refit],
    annotators: int,
    policy: dict[str, Any],
    missing: str,
) -> None:
    store_crowd(honest=annotators)
    store_policy(**policy)
    with database.read() as conn:
        assert not due_trigger(conn)
    refit = run_refit()
    assert refit.state == "failed"
    assert missing in (refit.detail or "")
    with database.read() as conn:
        assert conn.execute(text("SELECT count(*) FROM snapshots")).scalar_one() == 0


def test_enough_votes_publish_it_and_later_ones_need_no_more(
    database: Database, store_crowd: Callable[..., None], store_policy: Callable[..., None], run_refit: Ask
) -> None:
    store_crowd(honest=3)
    store_policy(min_board_annotators=3, min_board_votes=360)
    with database.read() as conn:
        assert due_trigger(conn)
    assert run_refit().state == "done"
    store_policy()
    assert run_refit().state == "done"


def newcomer(votes: int, annotators: int) -> list[dict[str, str]]:
    """Votes for a model that beats model 5 often."""
    return [
        {
            "model_a": "newcomer",
            "model_b": "model 5",
            "winner": "model_b" if i % 5 == 0 else "model_a",
            "annotator": f"honest {i % annotators}",
        }
        for i in range(votes)
    ]


@pytest.mark.parametrize(
    ("votes", "annotators", "policy", "provisional"),
    [
        (29, 12, {}, True),
        pytest.param(40, 4, {}, True, marks=pytest.mark.campaign),
        (40, 12, {}, False),
        (29, 4, {"min_model_votes": 0, "min_model_annotators": 0}, False),
    ],
)
@pytest.mark.comparisons
def test_a_model_is_ranked_once_it_has_enough_votes(
    ask: Ask,
    crowd: list[str],
    refit: Ask,
    change_policy: Ask,
    votes: int,
    annotators: int,
    policy: dict[str, Any],
    provisional: bool,
) -> None:
    assert len(crowd) == 14
    change_policy(**policy)
    sent = ask("POST", "/votes/batch", json={"votes": newcomer(votes, annotators)})
    assert sent.json()["counts"]["created"] == votes
    refit()
    for method in ("am-elo", "m-elo", "elo"):
        rows = ask("GET", f"/leaderboard?method={method}").json()["models"]
        (new,) = (row for row in rows if row["model"] == "newcomer")
        others = [row for row in rows if row["model"] != "newcomer"]
        assert new["provisional"] == provisional
        assert new["score"] is not None
        assert not any(row["provisional"] for row in others)
        if not provisional:
            assert sorted(row["rank"] for row in rows) == list(range(1, len(rows) + 1))
            continue
        assert rows[-1] is new
        nulls = ("rank", "best_rank", "worst_rank", "rank_set_best", "rank_set_worst", "class_rank")
        assert [new[name] for name in nulls] == [None] * 6
        assert sorted(row["rank"] for row in others) == list(range(1, len(rows)))
        if method == "am-elo":
            assert all(row["worst_rank"] <= len(others) and row["rank_set_worst"] <= len(others) for row in others)
            assert len(others) == 6
            table = {
                row["model"]: row for row in csv.DictReader(io.StringIO(ask("GET", "/leaderboard?format=csv").text))
            }
            assert (table["newcomer"]["provisional"], table["newcomer"]["rank"]) == ("true", "")


def test_a_wide_interval_is_no_rank(ask: Ask, client: Client, crowd: list[str], refit: Ask, change_policy: Ask) -> None:
    assert crowd
    change_policy(max_interval_width=1)
    refit()
    rows = ask("GET", "/leaderboard").json()["models"]
    assert {(row["provisional"], row["rank"], row["identified"]) for row in rows} == {(True, None, True)}
    assert [row["score"] for row in rows] == sorted((row["score"] for row in rows), reverse=True)
    page = client.get("/").text
    assert "No model has enough votes for a rank" in page
    assert page.count(">provisional<") == len(rows)


def test_older_snapshots_have_no_provisional_model(ask: Ask, three: int) -> None:
    assert three
    assert [row["provisional"] for row in ask("GET", "/leaderboard").json()["models"]] == [False] * 3
