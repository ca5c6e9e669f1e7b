"""`rate --style`: the leaderboard with style control beside the one without."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from tests.rating.model.styled_world import styled_records

RunCli = Callable[..., Result]
SETTINGS = ("--min-votes", 0, "--flag-rule", "threshold")


@pytest.fixture(scope="module")
def records() -> list[dict[str, object]]:
    """30 annotators with 60 votes each, with the measures of LMArena's files."""
    return styled_records()


@pytest.fixture(scope="module")
def arena_file(tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, object]]) -> Path:
    """The records as JSON lines."""
    path = tmp_path_factory.mktemp("style") / "votes.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_style_is_read_from_the_metadata_of_lmarena(run_cli: RunCli, arena_file: Path) -> None:
    arguments = ("rate", arena_file, *SETTINGS, "--format", "json")
    document = json.loads(run_cli(*arguments, "--style", "side,length,headers").stdout)
    plain = json.loads(run_cli(*arguments).stdout)
    assert document["models"] == plain["models"]
    assert "style" not in plain
    style = document["style"]
    assert [row["feature"] for row in style["features"]] == ["side", "length", "headers"]
    assert style["features"][1]["lower"] > 0 > style["features"][2]["lower"]
    assert {row["model"] for row in style["models"]} == {row["model"] for row in plain["models"]}
    assert len(style["annotators"]) == 90


def test_the_table_has_both_scores(run_cli: RunCli, arena_file: Path) -> None:
    lines = run_cli("rate", arena_file, *SETTINGS, "--style", "length").stdout.splitlines()
    assert lines[lines.index("With style control") + 1].split() == [
        "Rank",
        "Class",
        "Model",
        "Score",
        "±",
        "Without",
        "Change",
    ]
    assert any(line.startswith("length ") for line in lines)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--style", "bold"), ("--style", "length", "--plain"), ("--style", "side", "--method", "elo"),
        ("--style", "side", "--interval", "sandwich"),
    ],
)  # fmt: skip
def test_what_has_no_style_control_is_refused(run_cli: RunCli, arena_file: Path, arguments: tuple[str, ...]) -> None:
    result = run_cli("rate", arena_file, *SETTINGS, *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")


def test_a_measure_that_is_no_number_is_refused(
    run_cli: RunCli, tmp_path: Path, records: list[dict[str, object]]
) -> None:
    path = tmp_path / "votes.jsonl"
    broken = {**records[0], "conv_metadata": {"sum_assistant_a_tokens": "many", "sum_assistant_b_tokens": 3}}
    path.write_text("".join(json.dumps(record) + "\n" for record in [broken, *records]))
    result = run_cli("rate", path, *SETTINGS, "--style", "length")
    assert result.exit_code == 2
    assert "length_a is no number in 1 vote" in result.stderr
