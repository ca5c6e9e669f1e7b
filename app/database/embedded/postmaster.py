import contextlib
import os
import shlex
import signal
import time
from pathlib import Path

from psycopg.pq import PGconn, Ping

from app.database.embedded.account import Account
from app.database.embedded.errors import EmbeddedServerError
from app.database.embedded.folder import ServerFolder
from app.database.embedded.identity import find_postmaster
from app.database.embedded.locks import FileLock, try_exclusive
from app.database.embedded.sockets import PORT, SOCKET_FILE, remove_stale_socket

SILENCE_SECONDS = 60.0
STOP_SECONDS = 60.0
PID_SECONDS = 5.0  # between a server's first moment and its writing down its process id
POLL_SECONDS = 0.02
MAX_LOG_BYTES = 16 * 1024 * 1024

# On the command line, so that no edit of postgresql.conf opens the server or weakens what is promised of it.
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
    # One file a weekday, emptied when its day comes round again.
    "log_filename": "postgresql-%a.log",
    "log_rotation_age": "1d",
    "log_rotation_size": "0",
    "log_truncate_on_rotation": "on",
    # Failed statements are reported to the caller, who logs them without personal data; here they would stand with it.
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
}


def is_alive(folder: ServerFolder) -> bool:
    """Whether any process of the server lives: each holds the alive lock, from before it does anything."""
    lock = try_exclusive(folder.alive_lock)
    if lock is None:
        return True
    lock.release()
    return False


def launch(folder: ServerFolder, programs: Path, account: Account, socket: Path, alive: FileLock) -> None:
    """Start a server and return at once; nothing else may live in the folder, which holding `alive` proves.

    Raises
    ------
    EmbeddedServerError
        A server that is not ours has the database files open, or pg_ctl failed.
    """
    foreign = find_postmaster(folder.cluster)
    if foreign is not None:
        raise EmbeddedServerError(f"{folder.cluster} is in use by a PostgreSQL started by hand (process {foreign.pid})")
    (folder.cluster / "postmaster.pid").unlink(missing_ok=True)
    remove_stale_socket(socket)
    _trim_log(folder.log)
    settings = _SETTINGS | {"unix_socket_directories": str(socket)}
    options = shlex.join(part for name, value in settings.items() for part in ("-c", f"{name}={value}"))
    # pg_ctl hands its command line to a shell: paths of the user's choosing go by environment and working folder.
    answer = account.run(
        [programs / "pg_ctl", "start", "-W", "-s", "-l", "../../log/start.log", "-o", options],
        cwd=folder.cluster,
        environment={"PGDATA": str(folder.cluster)},
        pass_fds=[alive.descriptor],
    )
    if answer.returncode != 0:
        raise EmbeddedServerError(f"pg_ctl could not start PostgreSQL in {folder.cluster}: {answer.stderr.strip()}")


def wait_until_ready(folder: ServerFolder, socket: Path) -> bool:
    """Wait until the server takes connections, however long it replays its log; false when it is gone.

    Raises
    ------
    EmbeddedServerError
        It lives but says nothing: what is left of a killed server, or one whose socket was removed.
    """
    address = f"host={socket} port={PORT} user=postgres dbname=postgres connect_timeout=5".encode()
    heard = time.monotonic()
    while is_alive(folder):
        answer = PGconn.ping(address)
        if answer == Ping.OK:
            return True
        if answer == Ping.REJECT:  # starting up, replaying, shutting down
            heard = time.monotonic()
        elif time.monotonic() - heard > SILENCE_SECONDS:
            raise EmbeddedServerError(
                f"PostgreSQL's processes in {folder.cluster} do not answer at {socket / SOCKET_FILE}: "
                f"end them and try again; the log is in {folder.log}"
            )
        time.sleep(POLL_SECONDS)
    return False


def stop(folder: ServerFolder) -> None:
    """Stop the server: roll back what is open, write everything, and wait until its last process is gone.

    Raises
    ------
    EmbeddedServerError
        It did not end, not even when told to drop everything (which is as safe, and slower to start from).
    """
    for request in (signal.SIGINT, signal.SIGQUIT):
        if _ask_to_stop(folder, request):
            return
    raise EmbeddedServerError(f"PostgreSQL in {folder.cluster} did not stop; the log is in {folder.log}")


def last_words(log: Path) -> str:
    """Return where the newest log file is and its last serious line."""
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
    # The collector empties a file when a new day begins, never when the server starts.
    (log / "start.log").unlink(missing_ok=True)
    for file in log.iterdir():
        if file.stat().st_size > MAX_LOG_BYTES:
            file.unlink()
