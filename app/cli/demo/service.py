"""A service of the demo's own: an embedded database in a temporary folder and `stable-arena serve` beside it."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from app.auth.keys.service import create_key
from app.database.opening import open_database
from app.errors import StableArenaError

START_SECONDS = 60.0
STOP_SECONDS = 20.0
HOST = "127.0.0.1"


class DemoFailedError(StableArenaError):
    """The demo's service did not come up, or went away."""

    code = "demo-failed"
    title = "The demo failed"


@dataclass(frozen=True)
class Service:
    """Where the demo's service answers, and a key with every scope."""

    url: str
    key: str
    log: Path
    process: subprocess.Popen[bytes]


@contextmanager
def demo_service(port: int) -> Iterator[Service]:
    """Run the service for the length of the block; leaves no process and no file behind.

    Raises
    ------
    DemoFailedError
        The service did not answer within a minute; the message has its last words.
    """
    folder = Path(tempfile.mkdtemp(prefix="stable-arena-demo-"))
    folder.chmod(0o755)  # as root the database runs as somebody else, who must get through
    try:
        with open_database(None, folder / "data") as database:
            with database.begin() as connection:
                _, key = create_key(connection, "demo", ["admin"])
            port = port or _free_port()
            log = folder / "service.log"
            process = _start(folder / "data", port, log)
            try:
                service = Service(f"http://{HOST}:{port}", key, log, process)
                _wait_until_ready(service)
                yield service
            finally:
                _stop(process)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _start(data_dir: Path, port: int, log: Path) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STABLE_ARENA_")}
    environment["STABLE_ARENA_DATA_DIR"] = str(data_dir)
    command = [sys.executable, "-m", "app.cli", "serve", "--host", HOST, "--port", str(port)]
    with log.open("wb") as output:
        # in a session of its own: Ctrl-C reaches the demo alone, which then stops the service
        return subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)  # noqa: S603  our own command


def _wait_until_ready(service: Service) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if service.process.poll() is not None:
            break
        try:
            if httpx.get(f"{service.url}/readyz", timeout=2.0).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise DemoFailedError(f"the service did not start: {last_words(service.log)}")


def last_words(log: Path) -> str:
    """Return the last line of the service's log."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
