"""The tutorial of the data scientist, run as it is written: every command, and what it says."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

RunCli = Callable[..., Any]
TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorials" / "rate-your-own-votes.md"


@pytest.mark.usefixtures("on_database", "own_folder")
def test_every_command_says_what_the_tutorial_shows(run_cli: RunCli) -> None:
    text = TUTORIAL.read_text(encoding="utf-8")
    (script,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(script, {})  # noqa: S102  the tutorial's own
    blocks = re.findall(r"```\n(\$ .*?)```", text, re.DOTALL)
    shown = [part.splitlines() for part in "".join(blocks).removeprefix("$ ").split("\n$ ")]
    assert len(shown) > 8
    for command, *said in shown:
        result = run_cli(*shlex.split(command)[1:])
        assert all(line in result.stdout + result.stderr for line in said), result.stderr
        assert result.exit_code == (2 if "error:" in "".join(said) else 0), result.stderr
    for name in ("board.svg", "board.html", "dataset/README.md", "votes.xlsx"):
        assert Path(name).stat().st_size
