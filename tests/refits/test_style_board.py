"""The leaderboard with style control that a refit publishes: of votes with features, where the policy declares them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from httpx import Client

from app.database.engine import Database
from app.imports.formats.options import ReadOptions
from app.imports.formats.whole import read_vote_file
from app.imports.runner import ImportRunner
from app.policy.schemas import Policy
from app.refits.reproduce import reproduce
from app.refits.schemas import Refit
from app.wording import change, points
from stable_arena import AmElo
from tests.fixtures.console import SignIn
from tests.fixtures.crowds import RANK_EVERYTHING
from tests.fixtures.pages import Page
from tests.rating.model.styled_world import styled_records

Ask = Callable[..., Any]
FEATURES = ("side", "length", "headers")
POLICY = {**RANK_EVERYTHING, "style_features": FEATURES}


@pytest.fixture
def arena_file(tmp_path: Path) -> Path:
    path = tmp_path / "votes.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in styled_records()))
    return path


@pytest.fixture
def imported(ask: Ask, database: Database, arena_file: Path) -> None:
    """The votes on record."""
    headers = {"Content-Type": "application/x-ndjson"}
    ask("POST", "/imports", content=arena_file.read_bytes(), headers=headers, params={"filename": "votes.jsonl"})
    ImportRunner(database, lease_seconds=30).run_next()


@pytest.mark.comparisons
def test_it_is_the_one_that_rate_has_of_the_same_votes(
    ask: Ask, database: Database, imported: None, arena_file: Path, store_policy: Ask, run_refit: Callable[..., Refit]
) -> None:
    store_policy(**POLICY)
    assert run_refit().state == "done"
    file = read_vote_file(arena_file, ReadOptions(features=FEATURES))
    loop = Policy.model_validate(POLICY).loop_settings("am-elo")
    parameters = {name: getattr(loop, name) for name in AmElo().get_params() if hasattr(loop, name)}
    rated = AmElo(**parameters, features=FEATURES).fit(file.table(FEATURES))
    models, leans = rated.leaderboard.to_dicts(), rated.leans.to_dicts()
    board = ask("GET", "/leaderboard?method=style").json()
    assert [row["model"] for row in board["models"]] == [row["model"] for row in models]
    for served, expected in zip(board["models"], models, strict=True):
        assert {name: served[name] for name in ("score", "lower", "upper")} == pytest.approx(
            {name: expected[name] for name in ("score", "lower", "upper")}, abs=1e-9
        )
    style = board["diagnostics"]["style"]
    assert (style["votes"], style["left_out"]) == (1800, 0)
    for served, expected in zip(style["features"], rated.style.to_dicts(), strict=True):
        assert served == pytest.approx(expected, abs=1e-9)
    expected = {(row["annotator"], row["feature"]): row["own"] for row in leans}
    for annotator in ask("GET", "/annotators", scope="review:read").json()["items"]:
        leans = {feature: lean["points"] for feature, lean in annotator["leans"].items()}
        assert leans == pytest.approx({name: expected[annotator["annotator"], name] for name in FEATURES}, abs=1e-9)
    main = {row["model"]: row for row in ask("GET", "/leaderboard").json()["models"]}
    assert [row["compared"]["am-elo"]["score"] for row in board["models"]] == [
        main[row["model"]]["score"] for row in board["models"]
    ], "the main leaderboard stands beside it"
    assert reproduce(database, str(board["snapshot"]["number"])).reproduced


@pytest.mark.comparisons
def test_votes_without_a_feature_are_left_out_and_counted(
    ask: Ask, client: Client, imported: None, store_policy: Ask, run_refit: Callable[..., Refit], sign_in: SignIn
) -> None:
    vote = {name: value for name, value in styled_records()[0].items() if name != "conv_metadata"}
    ask("POST", "/votes/batch", json={"votes": [vote, {**vote, "features": {"length": [7, 9]}}]})
    store_policy(**{**POLICY, "style_features": ("length",)})
    assert run_refit().state == "done"
    board = ask("GET", "/leaderboard?method=style").json()
    style = board["diagnostics"]["style"]
    assert (board["snapshot"]["votes_used"], style["votes"], style["left_out"]) == (1802, 1801, 1)
    assert [row["feature"] for row in style["features"]] == ["length"]
    page = Page(client.get("/?method=style"))
    worth = change(style["features"][0]["points"])
    assert f"one standard deviation more of length {worth} (" in page.text(".//p[@class='about']")
    first, main = board["models"][0], board["models"][0]["compared"]["am-elo"]
    gains = page.texts(".//td[@class='number wide-only other']/small")
    assert gains[0] == change(first["score"] - main["score"])
    one = ask("GET", "/annotators", scope="review:read").json()["items"][0]
    shown = sign_in("review").page(f"/console/annotators/{one['id']}").texts(".//table//tr")
    taste = next(row for row in shown if "Likes length" in row)
    assert points(one["leans"]["length"]["points"]) in taste


@pytest.mark.comparisons
def test_a_feature_that_tells_nothing_is_a_notice(
    ask: Ask, stored_crowd: None, store_policy: Ask, run_refit: Callable[..., Refit], assert_problem: Ask
) -> None:
    store_policy(**POLICY)
    assert run_refit().state == "done"
    diagnostics = ask("GET", "/leaderboard").json()["diagnostics"]
    assert diagnostics["style"] == {"features": [], "votes": 0, "left_out": 14 * 120}
    assert "style-board-omitted" in [notice["code"] for notice in diagnostics["warnings"]]
    assert_problem(ask("GET", "/leaderboard?method=style"), 404, "no-such-board")
