"""The tutorials of the data scientist, run as they are written: every command, and what it says."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

RunCli = Callable[..., Any]
TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"


@pytest.mark.parametrize(
    ("tutorial", "commands", "written"),
    [
        ("rate-your-own-votes.md", 9, ("board.svg", "board.html", "dataset/README.md", "votes.xlsx")),
        ("trust-a-judge.md", 2, ("judges.json",)),
    ],
)
@pytest.mark.usefixtures("on_database", "own_folder")
def test_every_command_says_what_the_tutorial_shows(
    run_cli: RunCli, tutorial: str, commands: int, written: tuple[str, ...]
) -> None:
    text = (TUTORIALS / tutorial).read_text(encoding="utf-8")
    (script,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(script, {})  # noqa: S102  the tutorial's own
    blocks = re.findall(r"```\n(\$ .*?)```", text, re.DOTALL)
    shown = [part.splitlines() for part in "".join(blocks).removeprefix("$ ").split("\n$ ")]
    assert len(shown) >= commands
    for command, *said in shown:
        result = run_cli(*shlex.split(command)[1:])
        assert all(line in result.stdout + result.stderr for line in said), result.stderr
        assert result.exit_code == (2 if "error:" in "".join(said) else 0), result.stderr
    for name in written:
        assert Path(name).stat().st_size
