"""`rate` on files whose rows stand for several votes: the numbers of the rows repeated, and of the estimators."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import Result

from stable_arena import BradleyTerry, read_votes

RunCli = Callable[..., Result]
HEADER = "annotator,model_a,model_b,winner,language"
DRAWN = np.random.default_rng(5)
VOTES = [  # each with how often
    (f"{who},{a},{b},{DRAWN.choice(['model_a', 'model_b', 'tie'])},{language}", int(DRAWN.integers(1, 4)))
    for who in "klmnop"
    for language in ("en", "fr")
    for a, b in (("x", "y"), ("y", "z"), ("z", "x"))
]
TOTAL = sum(n for _, n in VOTES)
RANKS = "item,annotator,model,rank\n1,k,a,0\n1,k,b,1\n1,k,c,2\n2,k,a,1\n2,k,b,2\n2,k,c,3\n"


@pytest.fixture
def weighted(tmp_path: Path) -> Path:
    path = tmp_path / "weighted.csv"
    path.write_text("\n".join([f"{HEADER},weight", *(f"{row},{n}" for row, n in VOTES)]))
    return path


@pytest.fixture
def repeated(tmp_path: Path) -> Path:
    path = tmp_path / "repeated.csv"
    path.write_text("\n".join([HEADER, *(row for row, n in VOTES for _ in range(n))]))
    return path


@pytest.fixture
def models(run_cli: RunCli) -> Callable[..., Any]:
    def models(*arguments: Any) -> Any:
        result = run_cli("rate", *arguments, "--min-votes", 0, "--format", "json")
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    return models


def assert_close(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        expected = other[name]
        assert value == (pytest.approx(expected, rel=1e-5, abs=1e-5) if isinstance(value, float) else expected), name


@pytest.mark.parametrize("method", ["am-elo", "m-elo", "elo"])
def test_a_weight_is_so_many_rows(models: Any, weighted: Path, repeated: Path, method: str) -> None:
    found, expected = (models(path, "--method", method) for path in (weighted, repeated))
    assert found["votes"]["used"] == expected["votes"]["used"] == TOTAL
    for part in ("models", "annotators"):
        for one, other in zip(found[part], expected[part], strict=True):
            assert_close(one, other)


def test_so_it_is_by_category(models: Any, weighted: Path, repeated: Path) -> None:
    found, expected = (models(path, "--by", "language") for path in (weighted, repeated))
    assert found["categories"]["votes"] == expected["categories"]["votes"]
    for one, other in zip(found["categories"]["models"], expected["categories"]["models"], strict=True):
        assert_close(one["categories"]["en"], other["categories"]["en"])


@pytest.mark.filterwarnings("ignore::app.rating.errors.RatingWarning")
def test_a_file_and_a_notebook_agree(models: Any, weighted: Path) -> None:
    board = BradleyTerry().fit(read_votes(weighted)).leaderboard
    rated = {row["model"]: row["score"] for row in models(weighted, "--method", "m-elo")["models"]}
    assert rated == pytest.approx(dict(board.select("model", "score").rows()), abs=1e-6)


def test_a_column_of_counts_is_asked_about(run_cli: RunCli, models: Any, weighted: Path, tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    path.write_text(weighted.read_text().replace("weight", "n", 1))
    asked = run_cli("rate", path, "--min-votes", 0)
    assert asked.exit_code == 2
    assert "--columns weight=n " in asked.stderr
    assert models(path, "--columns", "weight=n")["votes"]["used"] == TOTAL
    assert models(path, "--columns", "weight=")["votes"]["used"] == len(VOTES)


def test_ranks_of_0_are_asked_about(run_cli: RunCli, models: Any, tmp_path: Path) -> None:
    path = tmp_path / "ranks.csv"
    path.write_text(RANKS)
    asked = run_cli("rate", path, "--min-votes", 0, "--method", "m-elo")
    assert asked.exit_code == 2
    assert "--zero-rank best" in asked.stderr
    wins = {}
    for word in ("best", "unranked"):
        found = models(path, "--method", "m-elo", "--zero-rank", word)["models"]
        wins[word] = {row["model"]: row["wins"] for row in found}
    assert wins == {"best": {"a": 4, "b": 2, "c": 0}, "unranked": {"a": 2, "b": 2, "c": 0}}


def test_a_model_without_a_score_has_a_place_in_every_format(run_cli: RunCli, models: Any, tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("annotator,model_a,model_b,winner\n" + "k,a,b,model_a\nk,a,b,model_b\n" * 3 + "l,c,a,model_a\n" * 2)
    found = models(path, "--method", "m-elo")["models"]
    assert [
        (row["model"], row["rank"], row["best_rank"], row["worst_rank"], row["score"] is None) for row in found
    ] == [
        ("c", 1, 1, 3, True),
        ("a", 2, 1, 3, False),
        ("b", 2, 1, 3, False),
    ]
    arguments = ("rate", path, "--min-votes", 0, "--method", "m-elo", "--output")
    for kind, read in (("parquet", pl.read_parquet), ("xlsx", pl.read_excel), ("csv", pl.read_csv)):
        output = tmp_path / f"board.{kind}"
        assert run_cli(*arguments, output).exit_code == 0
        table = read(output)
        for name in ("rank", "best_rank", "worst_rank", "rank_set_best", "rank_set_worst", "class_rank", "votes"):
            assert table[name].dtype == pl.Int64, (kind, name)
            assert table[name].null_count() == 0, (kind, name)
    nobody = tmp_path / "none.csv"
    nobody.write_text("annotator,model_a,model_b,winner\nk,a,b,model_a\n")
    output = tmp_path / "none.parquet"
    assert run_cli("rate", nobody, "--min-votes", 0, "--method", "m-elo", "--output", output).exit_code == 0
    kinds = pl.read_parquet(output).schema
    assert {kinds[name] for name in ("rank", "best_rank", "class_rank")} == {pl.Int64}
    assert run_cli("rate", nobody, "--min-votes", 0, "--annotators", "--output", output).exit_code == 0
    assert pl.read_parquet(output).schema["reason"] == pl.String
