import io
from collections.abc import Callable
from typing import Any

import polars as pl

from app.database.engine import Database
from app.leaderboard.model_page import CHART_LENGTH
from app.leaderboard.queries import list_points

Ask = Callable[..., Any]


def test_against_each_other_model(ask: Ask, three: int) -> None:
    bee = ask("GET", "/models/bee", scope="read").json()
    assert [
        (one["opponent"], one["wins"], one["ties"], one["losses"], one["votes"]) for one in bee["head_to_head"]
    ] == [
        ("ant", 10, 10, 20, 40),
        ("cat", 0, 0, 0, 0),
    ]
    assert (bee["best_opponents"], bee["worst_opponents"]) == ([], []), "one that it met is no comparison"
    ant = ask("GET", "/models/ant", scope="read").json()
    assert (ant["best_opponents"], ant["worst_opponents"]) == (["cat"], ["bee"])
    assert [one["predicted"] for one in ant["head_to_head"]] == [0.64, 0.76]


def test_few_votes_make_no_best_opponent(ask: Ask, publish: Ask) -> None:
    names = ["ant", "often", "once", "even", "lost"]
    results = {"often": (80, 0, 20), "once": (1, 0, 0), "even": (5, 0, 5), "lost": (2, 0, 8)}
    matchups = [("ant", name, *counts, None, None, None) for name, counts in results.items()]
    publish({("am-elo", ""): {name: {} for name in names}}, matchups=matchups)
    ant = ask("GET", "/models/ant").json()
    assert (ant["best_opponents"], ant["worst_opponents"]) == (["often"], ["lost"]), "even is in neither"


def test_where_it_stands(ask: Ask, three: int) -> None:
    ant = ask("GET", "/models/ant").json()
    assert [(one["method"], one["tag"], one["rank"]) for one in ant["standings"]] == [
        ("am-elo", None, 1), ("am-elo", "code", 2), ("elo", None, 1), ("m-elo", None, 2), ("m-elo-all", None, 1),
    ]  # fmt: skip
    assert ant["tie_share"] == 0.25
    bee = ask("GET", "/models/bee").json()
    new = {"flipped_votes": None, "added_votes": None, "prompts": None}  # earlier snapshots have none of them
    assert bee["neighbours_computed"] is True
    assert bee["above"] == {"model": "ant", "gap": 100.0, "votes": 40, **new, "annotators": 3, "tied": False}
    assert bee["below"] == {"model": "cat", "gap": 100.0, "votes": 3, **new, "annotators": None, "tied": True}
    assert (ant["above"], ask("GET", "/models/cat").json()["below"]) == (None, None)
    assert ask("GET", "/models/bee?method=m-elo").json()["newest"]["score"] == 1110.0


def test_how_it_came_there(ask: Ask, publish: Ask, database: Database) -> None:
    scores = [1000.0 + 10 * i for i in range(7)]
    numbers = [publish({("am-elo", ""): {"ant": {"score": score}}, ("am-elo", "x"): {"ant": {}}}) for score in scores]
    ant = ask("GET", "/models/ant").json()
    assert [(one["number"], one["score"]) for one in ant["chart"]] == list(zip(numbers, scores, strict=True))
    assert [one["number"] for one in ant["history"]] == numbers[::-1], "once each, tags aside"
    assert len(numbers) < CHART_LENGTH
    with database.read() as conn:
        thinned = [row["number"] for row in list_points(conn, 1, "am-elo", most=4)]
    assert thinned == [numbers[0], numbers[2], numbers[4], numbers[6]]
    publish({("am-elo", ""): {"bee": {}}})
    left = ask("GET", "/models/ant").json()
    assert (left["newest"], left["standings"], left["tie_share"], left["above"]) == (None, [], None, None)
    assert left["head_to_head"] == []


def test_no_score_and_no_rank_anywhere(ask: Ask, publish: Ask) -> None:
    """Snapshots of earlier versions have ranks of models without a score; a provisional model's is for order alone.

    A class says that the rank of a model without a score is one.
    """
    unscored = {"score": None, "se": None, "lower": None, "identified": False, "rank_set_best": 1, "rank_set_worst": 4}
    placed = {**unscored, "class_rank": 1}
    board = {"ant": {}, "bee": unscored, "cat": {}, "dog": {"provisional": True}, "elk": placed}
    publish({("am-elo", ""): board, ("m-elo", ""): board})
    rows = {row["model"]: row for row in ask("GET", "/leaderboard?compare=m-elo").json()["models"]}
    for model in ("bee", "dog"):
        page = ask("GET", f"/models/{model}").json()
        for row in (rows[model], page["newest"], *page["standings"], *page["history"]):
            assert {name: value for name, value in row.items() if "rank" in name and value is not None} == {}
        assert {point["rank"] for point in page["chart"]} == {None}
        assert rows[model]["compared"]["m-elo"]["rank"] is None
    assert [rows[model]["rank"] for model in ("ant", "cat", "elk")] == [1, 3, 5], "as published"
    parquet = pl.read_parquet(io.BytesIO(ask("GET", "/leaderboard?format=parquet&compare=m-elo").content))
    ranks = [name for name in parquet.columns if name.endswith(("rank", "_best", "_worst"))]
    assert {parquet.schema[name] for name in ranks} == {pl.Int64}
    assert parquet["m_elo_rank"].to_list() == [1, None, 3, None, 5]


def test_where_no_model_has_a_score_ranks_are_whole_numbers(ask: Ask, publish: Ask) -> None:
    publish({("am-elo", ""): {"ant": {"score": None, "identified": False}}})
    parquet = pl.read_parquet(io.BytesIO(ask("GET", "/leaderboard?format=parquet&compare=am-elo").content))
    assert {parquet.schema[name] for name in ("rank", "best_rank", "am_elo_rank")} == {pl.Int64}
