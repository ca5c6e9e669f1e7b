"""SIGTERM and SIGHUP end a command as Ctrl-C does: nothing that it has started lives on."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own, not worth three calls
import pytest

from app.database.leases import acquire_lease
from app.database.opening import open_database
from app.refits.schedule import IMPORT_LEASE
from tests.fixtures.waiting import wait_until

ROOT = Path(__file__).parents[2]
COMMAND_LINE = [sys.executable, "-m", "app.cli"]
SIGNALS = [signal.SIGTERM, signal.SIGHUP]


@contextmanager
def started(*command: str, **variables: str) -> Iterator["subprocess.Popen[str]"]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STABLE_ARENA_")}
    process = subprocess.Popen(
        command, cwd=ROOT, env=kept | variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def postmasters(folder: Path) -> list[psutil.Process]:
    """Return the servers whose database is in the folder."""
    pids = [int(path.read_text().split()[0]) for path in folder.rglob("postmaster.pid") if path.read_text()]
    return [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]


def family(process: "subprocess.Popen[str]", folder: Path) -> list[psutil.Process]:
    """Return what a command has started, with what works on a database in the folder."""
    servers = postmasters(folder)
    children = [psutil.Process(process.pid), *servers]
    return servers + [child for parent in children for child in parent.children(recursive=True)]


def end_those_alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Return those of the processes that are still there, after ending them."""
    alive = [one for one in processes if is_alive(one)]
    for one in alive:
        one.kill()
    return alive


def is_alive(process: psutil.Process) -> bool:
    """Whether it runs: one that has ended may wait for a container's first process to notice."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("name", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.campaign)])
def test_a_command_stops_the_database_that_it_started(name: signal.Signals, data_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("annotator,model_a,model_b,winner\nk,a,b,tie\n")
    with open_database(None, data_dir) as database, database.begin() as conn:
        assert acquire_lease(conn, IMPORT_LEASE, "another import, for which the command waits", 3600)
    with started(*COMMAND_LINE, "import", str(path), STABLE_ARENA_DATA_DIR=str(data_dir)) as command:
        wait_until(lambda: postmasters(data_dir))
        servers = postmasters(data_dir)
        command.send_signal(name)
        assert command.wait(60) == 130
    assert end_those_alive(servers) == []


@pytest.mark.campaign
@pytest.mark.parametrize("name", SIGNALS)
def test_simulations_end_with_their_command(name: signal.Signals, tmp_path: Path) -> None:
    simulate = ("lab", "policies", "--world", "20", "--repeats", "100", "--processes", "2")
    with started(*COMMAND_LINE, *simulate, STABLE_ARENA_DATA_DIR=str(tmp_path)) as command:
        wait_until(lambda: len(family(command, tmp_path)) == 3)  # with the one that cleans up after the two
        processes = family(command, tmp_path)
        command.send_signal(name)
        assert command.wait(60) == 130
    psutil.wait_procs(processes, timeout=10)
    assert end_those_alive(processes) == []


@pytest.mark.campaign
@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize(
    ("program", "ready"),
    [
        (("-m", "examples.arena", "--port", "0"), r"Press Ctrl-C"),
        (("-m", "app.cli", "demo"), r"console/sign-in\?ticket"),
        (("-m", "app.cli", "serve", "--port", "0"), r"http://"),
        (("-m", "app.cli", "worker"), None),
    ],
)
def test_services_end_with_all_that_they_started(
    name: signal.Signals, program: tuple[str, ...], ready: str | None, data_dir: Path
) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o755)  # under root the database runs as another user
        where = {"TMPDIR": made, "STABLE_ARENA_DATA_DIR": str(data_dir)}
        with started(sys.executable, *program, **where) as command:
            assert command.stdout is not None
            if ready is None:
                wait_until(lambda: postmasters(data_dir) and len(family(command, data_dir)) > 5)
            else:
                assert any(re.search(ready, line) for line in command.stdout)
            processes = family(command, folder) + family(command, data_dir)
            assert len(processes) > 5
            command.send_signal(name)
            assert command.wait(120) == 0
        psutil.wait_procs(processes, timeout=10)
        assert end_those_alive(processes) == []
        assert list(folder.glob("stable-arena-demo-*")) == []
