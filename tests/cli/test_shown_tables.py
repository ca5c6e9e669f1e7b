"""The tables that the documents show of a public vote file are what the commands print."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from app.database.engine import Database
from app.leaderboard.fragility import measure_newest
from app.refits.fit.process import FitProcess

RunCli = Callable[..., Result]
ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TUTORIAL = (ROOT / "docs" / "tutorials" / "read-the-leaderboard.md").read_text(encoding="utf-8")


def shown(document: str, command: str) -> list[str]:
    """Return the lines that a document shows below a command."""
    return document.split(f"$ {command}\n")[1].split("```", maxsplit=1)[0].splitlines()


def test_the_readme_shows_what_rate_prints(run_cli: RunCli, data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data_folder)
    printed = run_cli("rate", "llmfao.csv").stdout
    lines = shown(README, "stable-arena rate llmfao.csv")
    assert len(lines) == 4
    assert printed.splitlines()[:4] == lines, printed


@pytest.mark.usefixtures("on_database")
def test_the_tutorial_shows_what_leaderboard_prints(
    run_cli: RunCli, database: Database, fit_process: FitProcess, data_folder: Path
) -> None:
    for command in (("import", data_folder / "llmfao.csv"), ("refit",)):
        result = run_cli(*command)
        assert result.exit_code == 0, result.stderr
    assert measure_newest(database, fit_process, lease_seconds=30), "what ≈ rests on"
    printed = run_cli("leaderboard").stdout
    lines = shown(TUTORIAL, "stable-arena leaderboard")
    assert len(lines) == 5
    assert printed.splitlines()[:5] == lines, printed

    board = json.loads(run_cli("leaderboard", "--format", "json").stdout)
    leader, snapshot = min(board["models"], key=lambda model: model["rank"]), board["snapshot"]
    figures = (
        f"{snapshot['votes_read']:,} votes of crowd workers on {len(board['models'])} models",
        f"{leader['model']} is somewhere in {leader['best_rank']} to {leader['worst_rank']}",
        f"at these {snapshot['votes_used']:,} votes {leader['worst_rank'] - leader['best_rank']} others may be as good",
    )
    text = re.sub(r"\s+", " ", TUTORIAL)
    for figure in figures:
        assert figure in text, figure
