from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from app.cli.command import application
from stable_arena_lab.arenas import Arena, paper_arena


@pytest.fixture
def run_lab() -> Callable[..., Result]:
    """Run `stable-arena lab` with these arguments in this process; the result has exit_code, stdout and stderr."""

    def run(*arguments: object) -> Result:
        return CliRunner().invoke(application, ["lab", *(str(argument) for argument in arguments)])

    return run


@pytest.fixture(scope="session")
def arena() -> Arena:
    """Honest votes in the am-ELO paper's size, at the default seed."""
    return paper_arena(0)


@pytest.fixture
def arena_file(tmp_path: Path, arena: Arena) -> Path:
    """The same votes as a file, and one annotator with few more."""
    words = {1.0: "model_a", 0.5: "tie", 0.0: "model_b"}
    lines = ["annotator,model_a,model_b,winner"]
    for k, a, b, outcome in zip(arena.annotator, arena.model_a, arena.model_b, arena.outcome, strict=True):
        lines.append(f"k{k:02},m{a:02},m{b:02},{words[float(outcome)]}")
    lines += ["few,m00,m01,tie"] * 3
    path = tmp_path / "arena.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
