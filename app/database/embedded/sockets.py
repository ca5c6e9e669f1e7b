"""The folder of the server's socket, private and with a short path."""

import contextlib
import re
import stat
import tempfile
from pathlib import Path

from app.database.embedded import EmbeddedServerError
from app.database.embedded.account import Account
from app.database.embedded.folder import ServerFolder

PORT = 5432
SOCKET_FILE = f".s.PGSQL.{PORT}"
MAX_SOCKET_PATH = 100  # the kernel's limit is 108 bytes on Linux, 104 on macOS

# PostgreSQL, libpq and SQLAlchemy each read some characters in the path of a socket's folder as syntax.
_PLAIN = re.compile(r"/[A-Za-z0-9/._+-]*")


def socket_folder(folder: ServerFolder, account: Account) -> Path:
    """Return the private folder of the server's socket; make it if it is missing.

    It has rights 0700 and belongs to `account`, because every user with access to the socket may do anything to the
    database. If the data folder's path does not fit, it is a temporary folder, recorded in the data folder.
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
            f"there is no place for a socket: the path of {folder.path} is too long, and the temporary folder "
            f"{temporary.parent} has too long a path, too, or is closed to user {account.name}"
        )
    account.make_private(temporary)
    folder.socket_record.write_text(str(temporary))
    return temporary


def recorded_folder(folder: ServerFolder) -> Path | None:
    """Return the temporary folder in which the socket was last, if there was one."""
    try:
        return Path(folder.socket_record.read_text())
    except FileNotFoundError:
        return None


def remove_stale_socket(socket: Path) -> None:
    """Remove what a killed server left; the process id in its lock file may belong to another process by now."""
    for name in (SOCKET_FILE, f"{SOCKET_FILE}.lock"):
        (socket / name).unlink(missing_ok=True)


def discard_temporary_folder(folder: ServerFolder) -> None:
    """Remove the temporary folder of the socket after the server has stopped."""
    recorded = recorded_folder(folder)
    if recorded is not None:
        with contextlib.suppress(OSError):  # it is not empty, not ours or gone, so not ours to remove
            recorded.rmdir()
        folder.socket_record.unlink(missing_ok=True)


def _fits(socket: Path) -> bool:
    return len(str(socket / SOCKET_FILE)) <= MAX_SOCKET_PATH and _PLAIN.fullmatch(str(socket)) is not None


def _is_private(path: Path, account: Account) -> bool:
    # lstat, to refuse a link too: temporary folders are cleaned, and then any user can take the name.
    try:
        found = path.lstat()
    except OSError:
        return False
    return found.st_mode == stat.S_IFDIR | stat.S_IRWXU and found.st_uid == account.uid
