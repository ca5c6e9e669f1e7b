"""The guide that speaks of models of a public vote file works on it."""

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

RunCli = Callable[..., Result]
GUIDES = (Path(__file__).parents[2] / "docs" / "how-to.md").read_text(encoding="utf-8")


@pytest.fixture
def llmfao(on_database: None, run_cli: RunCli, data_folder: Path) -> RunCli:
    """Return what runs a command on a database with the votes of this file, after a refit."""
    for command in (("import", data_folder / "llmfao.csv"), ("refit",)):
        result = run_cli(*command)
        assert result.exit_code == 0, result.stderr
    return run_cli


def test_what_a_guide_does_to_it_works(llmfao: RunCli) -> None:
    block = GUIDES.split("## Rename or archive a model\n")[1].split("```")[1]
    for line in block.strip().splitlines():
        result = llmfao(*shlex.split(line.removeprefix("$ stable-arena ")))
        assert result.exit_code == 0, f"{line}: {result.stderr}"
