"""The tables that the documents show of a public vote file are what the commands print."""

import json
import re
import shlex
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
REVIEWING = (ROOT / "docs" / "tutorials" / "review-annotators.md").read_text(encoding="utf-8")
GUIDES = (ROOT / "docs" / "how-to.md").read_text(encoding="utf-8")
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


@pytest.fixture
def llmfao(on_database: None, run_cli: RunCli, data_folder: Path) -> RunCli:
    """Return what runs a command on a database with the votes of this file, after a refit."""
    for command in (("import", data_folder / "llmfao.csv"), ("refit",)):
        result = run_cli(*command)
        assert result.exit_code == 0, result.stderr
    return run_cli


def test_the_tutorial_shows_what_reviews_prints(llmfao: RunCli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reasons are left out, and the figures of one annotator cut after the summary."""
    monkeypatch.setenv("COLUMNS", "400")
    printed, lines = llmfao("reviews").stdout, shown(REVIEWING, "stable-arena reviews")
    assert len(printed.splitlines()) == len(lines) > 2, printed
    for whole, line in zip(printed.splitlines(), lines, strict=True):
        assert whole.startswith(line.removesuffix("…")), printed
    assert llmfao("reviews", "--watch").stdout.splitlines() == [lines[0].rstrip()], "as the tutorial says, none"
    said = llmfao("annotators", "show", "worker70").stdout
    summary = [line for line in said.splitlines() if line.startswith("•")]
    assert summary == shown(REVIEWING, "stable-arena annotators show worker70"), said
    found = {one["annotator"]: one for one in json.loads(llmfao("reviews", "--format", "json").stdout)["reviews"]}
    for name in ("worker15", "worker70"):
        reason = found[name]["evidence"]
        assert reason["rule"] == "ability"
        assert any("always votes for Weaver 12k" in sentence for sentence in reason["words"]), reason


def test_the_tutorial_shows_what_leaderboard_prints(
    llmfao: RunCli, database: Database, fit_process: FitProcess
) -> None:
    assert measure_newest(database, fit_process, lease_seconds=30), "what ≈ rests on"
    printed = llmfao("leaderboard").stdout
    lines = shown(TUTORIAL, "stable-arena leaderboard")
    assert len(lines) == 5
    assert printed.splitlines()[:5] == lines, printed

    board = json.loads(llmfao("leaderboard", "--format", "json").stdout)
    leader, snapshot = min(board["models"], key=lambda model: model["rank"]), board["snapshot"]
    figures = (
        f"{snapshot['votes_read']:,} votes of crowd workers on {len(board['models'])} models",
        f"{leader['model']} is somewhere in {leader['best_rank']} to {leader['worst_rank']}",
        f"at these {snapshot['votes_used']:,} votes {leader['worst_rank'] - leader['best_rank']} others may be as good",
    )
    text = re.sub(r"\s+", " ", TUTORIAL)
    for figure in figures:
        assert figure in text, figure


def test_the_guides_that_speak_of_this_file_work_on_it(llmfao: RunCli) -> None:
    for title in ("Review from a terminal", "Try a policy before you set it", "Rename or archive a model"):
        block = GUIDES.split(f"## {title}\n")[1].split("```")[1]
        for line in block.strip().splitlines():
            result = llmfao(*shlex.split(line.removeprefix("$ stable-arena ")))
            assert result.exit_code == 0, f"{line}: {result.stderr}"
    standings = {
        one["annotator"]: one["standing"]
        for one in json.loads(llmfao("annotators", "--format", "json").stdout)["annotators"]
    }
    assert standings["worker70"] == "flagged", "excluded, and the exclusion withdrawn"
