"""`rate` on files that say what the models were asked: only the intervals differ."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import Result

from app.imports.formats.options import ReadOptions
from app.imports.formats.whole import read_vote_file

RunCli = Callable[..., Result]
MODELS = ("ant", "bee", "cat", "dog")
SIZE = 1200
DRAWN = np.random.default_rng(4)
PROMPT, FIRST = DRAWN.integers(0, 6, SIZE), DRAWN.integers(0, 4, SIZE)
SECOND = (FIRST + DRAWN.integers(1, 4, SIZE)) % 4
BY_PROMPT = DRAWN.normal(0, 1.5, (6, 4))
WON = DRAWN.random(SIZE) < 1 / (1 + np.exp(BY_PROMPT[PROMPT, SECOND] - BY_PROMPT[PROMPT, FIRST]))
VOTES = pl.DataFrame(
    {
        "annotator": [f"k{i % 20}" for i in range(SIZE)],
        "model_a": [MODELS[i] for i in FIRST],
        "model_b": [MODELS[i] for i in SECOND],
        "winner": np.where(WON, "model_a", "model_b"),
        "asked": [f"¿Qué es {i}?" for i in PROMPT],
    }
)
LIKE_TODAY = ("rank", "model", "score", "votes", "wins", "ties", "losses")


@pytest.fixture
def rated(run_cli: RunCli, tmp_path: Path) -> Callable[..., Any]:
    def rated(votes: pl.DataFrame, *options: str) -> Any:
        path = tmp_path / "votes.csv"
        votes.write_csv(path)
        result = run_cli("rate", path, "--min-votes", 0, *options, "--format", "json")
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    return rated


def test_prompts_change_intervals_alone(rated: Any) -> None:
    plain, found = rated(VOTES), rated(VOTES, "--prompts", "asked")
    assert [{name: row[name] for name in LIKE_TODAY} for row in plain["models"]] == [
        {name: row[name] for name in LIKE_TODAY} for row in found["models"]
    ]
    assert all(one["se"] > 1.5 * other["se"] for one, other in zip(found["models"], plain["models"], strict=True))
    assert plain["annotators"] == found["annotators"]
    assert (plain["settings"]["prompt_column"], found["settings"]["prompt_column"]) == (None, "asked")
    assert (plain["diagnostics"]["prompts"], found["diagnostics"]["prompts"]) == (None, 6)
    assert found["diagnostics"]["prompt_share"] > 0.5
    assert [one["code"] for one in found["diagnostics"]["warnings"]] == ["few-prompts"]


@pytest.mark.parametrize("column", ["prompt", "prompt_id", "question_id", "item", "instruction"])
def test_usual_columns_are_recognised(rated: Any, column: str) -> None:
    found = rated(VOTES.rename({"asked": column}))
    assert found["settings"]["prompt_column"] == column
    assert found["diagnostics"]["prompts"] == 6


def test_the_text_of_a_prompt_has_the_same_key_in_every_kind_of_file(rated: Any, tmp_path: Path) -> None:
    named = VOTES.rename({"asked": "prompt"})
    named.write_parquet(tmp_path / "votes.parquet")
    named.write_ndjson(tmp_path / "votes.jsonl")
    named.write_csv(tmp_path / "votes.csv")
    frames = [read_vote_file(tmp_path / f"votes.{kind}").frame["prompt"] for kind in ("parquet", "jsonl", "csv")]
    assert frames[0].equals(frames[1])
    assert frames[0].equals(frames[2])
    assert frames[0].n_unique() == 6


@pytest.mark.parametrize(
    "values",
    [
        [[{"role": "user", "content": f"Say {i}"}] for i in (1, 2, 1)],
        [1.5, 2.5, 1.5],
        [True, False, True],
        [{"text": "a"}, {"text": "b"}, {"text": "a"}],
        ["x" * 2_000_000, "y", "x" * 2_000_000],
    ],
)
def test_prompts_of_any_kind_refuse_no_vote(tmp_path: Path, values: list[Any]) -> None:
    votes = VOTES.head(3).select("annotator", "model_a", "model_b", "winner").to_dicts()
    rows = [{**vote, "prompt": value} for vote, value in zip(votes, values, strict=True)]
    (tmp_path / "votes.jsonl").write_text("\n".join(map(json.dumps, rows)))
    pl.DataFrame(rows).write_parquet(tmp_path / "votes.parquet")
    for kind in ("jsonl", "parquet"):
        file = read_vote_file(tmp_path / f"votes.{kind}")
        assert file.rejected == 0
        first, second, third = file.frame["prompt"]
        assert first == third != second


def test_a_column_of_dates_says_nothing_of_prompts(tmp_path: Path) -> None:
    dated = VOTES.head(3).with_columns(item=pl.Series(["2026-01-01"] * 3).str.to_date())
    dated.write_parquet(tmp_path / "votes.parquet")
    file = read_vote_file(tmp_path / "votes.parquet")
    assert file.rejected == 0
    assert file.frame["prompt"].null_count() == 3


def test_rankings_and_grades_of_an_item_are_on_one_prompt(tmp_path: Path) -> None:
    ranking = {"annotator": "k", "item": 7, "ranking": [["ant"], ["bee", "cat"]]}
    (tmp_path / "votes.jsonl").write_text("\n".join(json.dumps({**ranking, "annotator": k}) for k in "kl"))
    frame = read_vote_file(tmp_path / "votes.jsonl").frame
    assert frame["prompt"].n_unique() == 1
    assert frame["prompt"].null_count() == 0
    (tmp_path / "grades.csv").write_text("item,annotator,model,rating\n7,k,ant,3\n7,k,bee,2\n8,k,ant,1\n8,k,bee,2\n")
    graded = read_vote_file(tmp_path / "grades.csv").frame
    assert graded["prompt"].n_unique() == 2
    assert graded["prompt"][0] == frame["prompt"][0]


def test_a_column_that_is_not_there_is_refused(run_cli: RunCli, tmp_path: Path) -> None:
    VOTES.write_csv(tmp_path / "votes.csv")
    result = run_cli("rate", tmp_path / "votes.csv", "--prompts", "topic")
    assert result.exit_code == 2
    assert "--prompts names no column: topic" in result.stderr


def test_columns_may_name_the_prompt(tmp_path: Path) -> None:
    VOTES.write_csv(tmp_path / "votes.csv")
    options = ReadOptions(columns="prompt=asked")
    assert read_vote_file(tmp_path / "votes.csv", options).frame["prompt"].n_unique() == 6
