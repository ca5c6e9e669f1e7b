"""`stable-arena battles simulate`: battle policies compared on arenas like the caller's."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from app.cli.command import application
from app.rating.simulation.worlds import simulate_votes


@pytest.fixture
def simulated_file(tmp_path: Path) -> Path:
    """Votes of 42 honest annotators on 20 models."""
    votes = simulate_votes(0)
    words = {1.0: "model_a", 0.5: "tie", 0.0: "model_b"}
    columns = zip(votes.annotator, votes.model_a, votes.model_b, votes.outcome, strict=True)
    lines = [f"k{k:02},m{a:02},m{b:02},{words[float(outcome)]}" for k, a, b, outcome in columns]
    path = tmp_path / "arena.csv"
    path.write_text("\n".join(["annotator,model_a,model_b,winner", *lines]) + "\n", encoding="utf-8")
    return path


def simulate(*arguments: object) -> Result:
    return CliRunner().invoke(application, ["battles", "simulate", *(str(argument) for argument in arguments)])


def test_the_command_simulates_worlds_and_files(simulated_file: Path) -> None:
    quick = ("--repeats", 1, "--policy", "mixed", "--processes", 1)
    result = simulate("--world", 5, "--world", 6, "--bad", 0.1, *quick, "--format", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    assert [(row["models"], row["policy"]) for row in document["policies"]] == [
        (5, "uniform"), (5, "mixed"), (6, "uniform"), (6, "mixed"),
    ]  # fmt: skip
    of_file = simulate(simulated_file, *quick)
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
def test_what_cannot_be_simulated(arguments: tuple[object, ...], named: str) -> None:
    result = simulate(*arguments)
    assert result.exit_code == 2
    assert named in " ".join(result.stderr.split())
