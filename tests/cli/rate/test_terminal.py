import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

ENTER = "from app.cli.command import run; run()"


def run_watched(*arguments: str, watch_stdout: bool = False) -> tuple[str, str]:
    """Run `stable-arena` with a terminal on standard error (and output); return what each showed."""
    master, terminal = pty.openpty()
    command = [sys.executable, "-c", ENTER, *arguments]
    stdout = terminal if watch_stdout else subprocess.PIPE
    with subprocess.Popen(command, stdout=stdout, stderr=terminal) as process:
        os.close(terminal)
        shown = b""
        while chunk := read_some(master):
            shown += chunk
        printed = process.stdout.read() if process.stdout else b""
    os.close(master)
    assert process.returncode == 0
    return printed.decode(), shown.decode()


def read_some(master: int) -> bytes:
    """Read from the terminal; at its end Linux raises EIO, others return nothing."""
    try:
        return os.read(master, 65_536)
    except OSError:
        return b""


@pytest.mark.campaign
def test_a_watcher_sees_the_stages_and_the_document_stays_clean(vote_file: Path) -> None:
    printed, shown = run_watched("rate", str(vote_file), "--format", "json")
    assert json.loads(printed)["votes"]["read"] == 1503
    assert "rating" in shown


@pytest.mark.campaign
def test_a_watcher_sees_the_table(vote_file: Path) -> None:
    _, shown = run_watched("rate", str(vote_file), watch_stdout=True)
    assert "[red]dog" in shown
    assert "1,503 votes read, 1,500 used" in shown
