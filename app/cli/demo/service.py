"""The demo's service: `stable-arena serve` on an embedded database in a temporary folder."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.auth.keys import COMMAND_LINE, create_key
from app.auth.sessions.service import LONGEST_LINK, make_link, sign_in_address
from app.database.opening import open_database
from app.errors import StableArenaError

STOP_SECONDS = 20.0


class DemoFailedError(StableArenaError):
    """The demo's service did not start, or it ended."""

    code = "demo-failed"
    title = "The demo failed"


@dataclass(frozen=True)
class Service:
    """Where the demo's service answers, a key with every scope, and a link that signs a browser in with it once."""

    url: str
    key: str
    sign_in: str
    data_dir: Path
    log: Path
    process: subprocess.Popen[str]


@contextmanager
def demo_service(port: int) -> Iterator[Service]:
    """Run the service during the block; leave no process and no file behind.

    Raises DemoFailedError: the service did not start; the message is the last line of its log.
    """
    folder = Path(tempfile.mkdtemp(prefix="stable-arena-demo-"))
    folder.chmod(0o755)  # under root the database runs as another user, who must read it
    try:
        with open_database(None, folder / "data") as database:
            with database.begin() as connection:
                made, key = create_key(connection, "demo", ["admin"])
                ticket = make_link(connection, str(made.id), lifetime=LONGEST_LINK, actor=COMMAND_LINE)
            log = folder / "service.log"
            process = _start(folder / "data", port, log)
            try:
                assert process.stdout is not None  # noqa: S101  a pipe
                url = process.stdout.readline().strip()  # printed once the service answers
                if not url:
                    raise DemoFailedError(f"the service did not start: {last_log_line(log)}")
                yield Service(url, key, f"{sign_in_address(url, ticket)}&after=/", folder / "data", log, process)
            finally:
                _stop(process)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _start(data_dir: Path, port: int, log: Path) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STABLE_ARENA_")}
    environment["STABLE_ARENA_DATA_DIR"] = str(data_dir)
    command = [sys.executable, "-m", "app.cli", "serve", "--host", "127.0.0.1", "--port", str(port)]
    with log.open("wb") as errors:
        # In a session of its own: Ctrl-C reaches the demo alone, which then stops the service.
        return subprocess.Popen(  # noqa: S603  our own command
            command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )


def last_log_line(log: Path) -> str:
    """Return the last line of the service's log."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "its log is empty"


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.communicate(timeout=STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


@contextmanager
def own_foreground() -> Iterator[None]:
    """Keep Ctrl-C from a parent that shares the terminal and the process group.

    Under `make`, Ctrl-C would reach make too, which then reports an interrupted target whatever the command returns.
    A shell gives each job a group of its own, and without a terminal there is no Ctrl-C: then nothing changes.
    """
    parent_group = os.getpgrp()
    if parent_group == os.getpid() or not sys.stdin.isatty() or os.tcgetpgrp(sys.stdin.fileno()) != parent_group:
        yield
        return
    os.setpgid(0, 0)
    # or the kernel stops a process that is not in the foreground
    previous = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.tcsetpgrp(sys.stdin.fileno(), os.getpgrp())
    try:
        yield
    finally:
        os.tcsetpgrp(sys.stdin.fileno(), parent_group)
        signal.signal(signal.SIGTTOU, previous)
