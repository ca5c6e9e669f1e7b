"""The screen that lists the commands."""

import os
import pty
import re
import subprocess
import sys

import pytest

from app.cli.command import COMMANDS
from app.cli.lab import EXPERIMENTS

ENTER = "from app.cli.command import run; run()"


def help_screen(*family: str, watched: bool, **environment: str) -> str:
    """Return what `--help` prints, into a pipe or on a terminal, without colours."""
    command = [sys.executable, "-c", ENTER, *family, "--help"]
    variables = {"TERM": "xterm", **os.environ, **environment}
    if not watched:
        return subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout
    master, terminal = pty.openpty()
    with subprocess.Popen(command, env=variables, stdout=terminal) as process:
        os.close(terminal)
        shown = b""
        while chunk := read_some(master):
            shown += chunk
    os.close(master)
    assert process.returncode == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode())


def read_some(master: int) -> bytes:
    """Read from the terminal; at its end Linux raises EIO, others return nothing."""
    try:
        return os.read(master, 65_536)
    except OSError:
        return b""


def listed(screen: str) -> list[str]:
    """Return the names in the first column of the list of commands."""
    commands = screen.partition("Commands")[2]
    return re.findall(r"^│ (\S+)", commands, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("watched", "environment"),
    [
        (False, {}),
        (False, {"COLUMNS": "40"}),
        (True, {"COLUMNS": "100"}),
        (True, {"COLUMNS": "40", "NO_COLOR": "1"}),
    ],
)
def test_every_command_is_listed_by_its_name(watched: bool, environment: dict[str, str]) -> None:
    assert listed(help_screen(watched=watched, **environment)) == list(COMMANDS)


def test_every_experiment_is_listed_by_its_name() -> None:
    assert listed(help_screen("lab", watched=False)) == list(EXPERIMENTS)
