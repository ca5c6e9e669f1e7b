import contextlib
import re
import stat
import tempfile
from pathlib import Path

from app.database.embedded.account import Account
from app.database.embedded.errors import EmbeddedServerError
from app.database.embedded.folder import ServerFolder

PORT = 5432
SOCKET_FILE = f".s.PGSQL.{PORT}"
MAX_SOCKET_PATH = 100  # the kernel's limit is 108 bytes on Linux, 104 on macOS

# PostgreSQL, libpq and SQLAlchemy each read some other character of a socket's folder as syntax.
_PLAIN = re.compile(r"/[A-Za-z0-9/._+-]*")


def socket_folder(folder: ServerFolder, account: Account) -> Path:
    """Return the private folder of the server's socket, made if need be.

    It has rights 0700 and `account` for its owner: whoever can reach the socket may do anything to the database.
    Where the data folder's path is too long for a socket it is a temporary one, recorded in the data folder.
    """
    if _fits(folder.socket):
        account.make_private(folder.socket)
        return folder.socket
    recorded = recorded_folder(folder)
    if recorded is not None and _is_private(recorded, account):
        return recorded
    temporary = Path(tempfile.mkdtemp(prefix="stable-arena-")).resolve()
    if not _fits(temporary) or not account.can("x", temporary.parent):
        temporary.rmdir()
        raise EmbeddedServerError(
            f"no room for a socket: {folder.path} has too long a path and so has, "
            f"or is closed to user {account.name}, the temporary folder {temporary.parent}"
        )
    account.make_private(temporary)
    folder.socket_record.write_text(str(temporary))
    return temporary


def recorded_folder(folder: ServerFolder) -> Path | None:
    """Return the temporary folder that the socket was last put in, if it was."""
    try:
        return Path(folder.socket_record.read_text())
    except FileNotFoundError:
        return None


def remove_stale_socket(socket: Path) -> None:
    """Remove what a killed server left; its lock file names a process id that may be someone else's by now."""
    for name in (SOCKET_FILE, f"{SOCKET_FILE}.lock"):
        (socket / name).unlink(missing_ok=True)


def discard_temporary_folder(folder: ServerFolder) -> None:
    """Leave nothing in the system's temporary folder once the server is stopped."""
    recorded = recorded_folder(folder)
    if recorded is not None:
        with contextlib.suppress(OSError):  # not empty, not ours, gone: then it is not ours to remove
            recorded.rmdir()
        folder.socket_record.unlink(missing_ok=True)


def _fits(socket: Path) -> bool:
    return len(str(socket / SOCKET_FILE)) <= MAX_SOCKET_PATH and _PLAIN.fullmatch(str(socket)) is not None


def _is_private(path: Path, account: Account) -> bool:
    # lstat: a link is refused too. The temporary folder is swept now and then, and its names are anyone's to take.
    try:
        found = path.lstat()
    except OSError:
        return False
    return found.st_mode == stat.S_IFDIR | stat.S_IRWXU and found.st_uid == account.uid
