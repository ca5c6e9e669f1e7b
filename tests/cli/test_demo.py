import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own, not worth three calls
import pytest

from app.cli.demo.command import read_duration
from app.rating.settings import LoopSettings
from app.rating.simulation.worlds import simulate_votes
from app.rating.verdict.round import run_round
from app.rating.votes.cells import aggregate

DEMO = [sys.executable, "-m", "app.cli", "demo"]
DEADLINE_SECONDS = 300.0


def left_over(folder: Path) -> list[str]:
    """Processes and folders of demos that used this temporary folder."""
    processes = [" ".join(p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"])]
    return [line for line in processes if str(folder) in line] + [path.name for path in folder.iterdir()]


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    # not tmp_path: its parents are closed to the user that the database runs as under root
    path = Path(tempfile.mkdtemp(prefix="stable-arena-demo-test-"))
    path.chmod(0o755)
    monkeypatch.setenv("TMPDIR", str(path))
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def compiled() -> None:
    """The kernels that a first board needs, compiled and kept where the demo finds them."""
    votes = simulate_votes(0, n_models=6, roles={"honest": 120, "flip": 5}, votes_each=60)
    cells = aggregate(votes.annotator, votes.model_a, votes.model_b, votes.outcome, **votes.sizes)
    run_round(cells, LoopSettings(flag_rule="evidence", exclude=True))


@pytest.mark.campaign
def test_a_demo_of_a_set_length_ends_by_itself_and_leaves_nothing(folder: Path, compiled: None) -> None:
    for length in ("30s", "100s"):  # the second where a loaded machine makes no board in the first
        ran = subprocess.run(
            [*DEMO, "--for", length, "--rate", "400"],
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        if "Leaderboard" in ran.stdout:
            break
    assert re.search(r"http://127.0.0.1:\d+/console/sign-in\?ticket=\S+&after=/", ran.stdout)
    votes = re.search(r"([\d,]+) votes", ran.stdout)
    assert votes is not None
    assert int(votes[1].replace(",", "")) > 100  # how many arrive depends on the machine
    assert "Leaderboard" in ran.stdout
    assert left_over(folder) == []


@pytest.mark.campaign
def test_ctrl_c_ends_the_demo_with_success_and_spares_the_parent(folder: Path) -> None:
    """The parent shares the terminal and the process group, as make does."""
    command = f"{' '.join(DEMO)} --for 60s; echo the parent saw $?"
    on_a_terminal = f"import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(['sh', '-c', {command!r}])))"
    with subprocess.Popen(
        [sys.executable, "-c", on_a_terminal], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as terminal:
        assert terminal.stdin is not None
        assert terminal.stdout is not None
        output = b""
        for line in terminal.stdout:
            output += line
            if address := re.search(rb"http://[\w.:/]+/console/sign-in\?[\w&=/-]+", line):
                assert "Sign in as demo" in httpx.get(address[0].decode(), timeout=120).text
                terminal.stdin.write(b"\x03")
                terminal.stdin.flush()
    assert b"the parent saw 0" in output, output[-500:]
    assert terminal.returncode == 0
    assert left_over(folder) == []


def test_durations() -> None:
    assert [read_duration(text) for text in ("90", "60s", "2m", "1.5h")] == [90.0, 60.0, 120.0, 5400.0]
