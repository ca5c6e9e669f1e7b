"""The server process (PostgreSQL calls it the postmaster): start it, wait for it, stop it."""

import contextlib
import os
import shlex
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from psycopg.pq import PGconn, Ping

from app.database.embedded import EmbeddedServerError
from app.database.embedded.account import Account
from app.database.embedded.folder import PORT, SOCKET_FILE, ServerFolder, remove_stale_socket
from app.database.embedded.locks import FileLock, try_exclusive

if TYPE_CHECKING:
    import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own, not worth one import

PROGRAM = "postgres"
START_TOLERANCE_SECONDS = 5.0
SILENCE_SECONDS = 60.0
STOP_SECONDS = 60.0
PID_SECONDS = 5.0  # from a server's start until it has written its process id
POLL_SECONDS = 0.02
MAX_LOG_BYTES = 16 * 1024 * 1024

# On the command line, so that no edit of postgresql.conf opens the server to the network or makes it lose data.
_SETTINGS = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "logging_collector": "on",
    "log_destination": "stderr",
    "log_directory": "../../log",
    "log_file_mode": "0600",
    # One file for each weekday, emptied a week later.
    "log_filename": "postgresql-%a.log",
    "log_rotation_age": "1d",
    "log_rotation_size": "0",
    "log_truncate_on_rotation": "on",
    # The service logs failed statements without personal data; PostgreSQL would log them with it.
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
}


def find_postmaster(cluster: Path) -> "psutil.Process | None":
    """Return the process that serves `cluster`, or None if `postmaster.pid` names no such process.

    After a crash the number in that file may belong to another process. So the process must have PostgreSQL's name
    and work in `cluster` or, if the system does not tell (root in a container), have started when the file says.
    """
    import psutil  # noqa: PLC0415  in the extra `embedded`; `find_binaries` reports first that it is missing

    try:
        lines = (cluster / "postmaster.pid").read_text().splitlines()
        pid, started = int(lines[0]), float(lines[2])
    except (FileNotFoundError, IndexError, ValueError):  # there is none, or it is just being written
        return None
    try:
        process = psutil.Process(pid)
        if process.name() != PROGRAM or process.status() == psutil.STATUS_ZOMBIE:
            return None
        try:
            serves = Path(process.cwd()) == cluster.resolve()
        except psutil.AccessDenied:
            serves = abs(process.create_time() - started) <= START_TOLERANCE_SECONDS
    except (psutil.NoSuchProcess, ValueError):  # ValueError: a negative number, written by single-user mode
        return None
    return process if serves else None


def is_alive(folder: ServerFolder) -> bool:
    """Return whether a process of the server lives: each holds the alive lock from its start."""
    lock = try_exclusive(folder.alive_lock)
    if lock is None:
        return True
    lock.release()
    return False


def launch(folder: ServerFolder, programs: Path, account: Account, socket: Path, alive: FileLock) -> None:
    """Start a server and return at once; holding `alive` proves that no other one lives in the folder.

    Raises EmbeddedServerError: a server that was started by hand uses the database files, or pg_ctl failed.
    """
    foreign = find_postmaster(folder.cluster)
    if foreign is not None:
        raise EmbeddedServerError(f"{folder.cluster} is in use by a PostgreSQL started by hand (process {foreign.pid})")
    (folder.cluster / "postmaster.pid").unlink(missing_ok=True)
    remove_stale_socket(socket)
    _trim_log(folder.log)
    settings = _SETTINGS | {"unix_socket_directories": str(socket)}
    options = shlex.join(part for name, value in settings.items() for part in ("-c", f"{name}={value}"))
    # pg_ctl passes its command line to a shell, so the data folder's path goes by environment and working folder.
    answer = account.run(
        [programs / "pg_ctl", "start", "-W", "-s", "-l", "../../log/start.log", "-o", options],
        cwd=folder.cluster,
        environment={"PGDATA": str(folder.cluster)},
        pass_fds=[alive.descriptor],
    )
    if answer.returncode != 0:
        raise EmbeddedServerError(f"pg_ctl could not start PostgreSQL in {folder.cluster}: {answer.stderr.strip()}")


def wait_until_ready(folder: ServerFolder, socket: Path) -> bool:
    """Wait until the server takes connections, however long it replays its log; return False when it has ended.

    Raises EmbeddedServerError: it lives but does not answer: remains of a killed server, or a server whose socket was
    removed.
    """
    address = f"host={socket} port={PORT} user=postgres dbname=postgres connect_timeout=5".encode()
    last_answer = time.monotonic()
    while is_alive(folder):
        answer = PGconn.ping(address)
        if answer == Ping.OK:
            return True
        if answer == Ping.REJECT:  # starting up, replaying, shutting down
            last_answer = time.monotonic()
        elif time.monotonic() - last_answer > SILENCE_SECONDS:
            raise EmbeddedServerError(
                f"PostgreSQL's processes in {folder.cluster} do not answer at {socket / SOCKET_FILE}: "
                f"end them and try again; the log is in {folder.log}"
            )
        time.sleep(POLL_SECONDS)
    return False


def stop(folder: ServerFolder) -> None:
    """Stop the server: roll back open transactions, write everything, and wait until its last process has ended.

    If that takes too long, the server stops at once; that is safe too, and only makes the next start slower.

    Raises EmbeddedServerError: the server did not end.
    """
    for request in (signal.SIGINT, signal.SIGQUIT):
        if _ask_to_stop(folder, request):
            return
    raise EmbeddedServerError(f"PostgreSQL in {folder.cluster} did not stop; the log is in {folder.log}")


def last_words(log: Path) -> str:
    """Return the newest log file and its last FATAL or PANIC line."""
    files = sorted(log.iterdir(), key=lambda file: file.stat().st_mtime)
    serious = [
        (file, line)
        for file in files
        for line in file.read_text(errors="replace").splitlines()
        if "FATAL:" in line or "PANIC:" in line
    ]
    if serious:
        file, line = serious[-1]
        return f"{file}: {line}"
    return str(files[-1] if files else log)


def _ask_to_stop(folder: ServerFolder, request: signal.Signals) -> bool:
    deadline = time.monotonic() + PID_SECONDS
    asked = False
    while is_alive(folder):
        if time.monotonic() > deadline:
            return False
        if not asked and (postmaster := find_postmaster(folder.cluster)) is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(postmaster.pid, request)
            asked = True
            deadline = time.monotonic() + STOP_SECONDS
        time.sleep(POLL_SECONDS)
    return True


def _trim_log(log: Path) -> None:
    # PostgreSQL empties a file when a new day begins, but not when the server starts.
    (log / "start.log").unlink(missing_ok=True)
    for file in log.iterdir():
        if file.stat().st_size > MAX_LOG_BYTES:
            file.unlink()
