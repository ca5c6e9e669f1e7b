"""`stable-arena lab policies`: battle policies compared on arenas like the caller's."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

RunLab = Callable[..., Result]


def test_the_command_simulates_worlds_and_files(run_lab: RunLab, arena_file: Path) -> None:
    quick = ("--repeats", 1, "--policy", "mixed", "--processes", 1)
    result = run_lab("policies", "--world", 5, "--world", 6, "--bad", 0.1, *quick, "--format", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    assert [(row["models"], row["policy"]) for row in document["policies"]] == [
        (5, "uniform"), (5, "mixed"), (6, "uniform"), (6, "mixed"),
    ]  # fmt: skip
    of_file = run_lab("policies", arena_file, *quick)
    assert (of_file.exit_code, of_file.stderr) == (0, "")
    assert "arena.csv" in of_file.stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "either a vote FILE or --world"),
        (("--world", 3), "--world must be at least 4 models, is 3"),
        (("--world", 9, "--top", 9), "--world must be at least 10 models, is 9"),
        (("--world", 9, "--policy", "best"), "--policy must be one of uniform"),
    ],
)
def test_what_cannot_be_simulated(run_lab: RunLab, arguments: tuple[object, ...], named: str) -> None:
    result = run_lab("policies", *arguments)
    assert result.exit_code == 2
    assert named in " ".join(result.stderr.split())
