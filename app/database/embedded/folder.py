"""The data folder: the names in it, and the folder of the server's socket, private and with a short path."""

import contextlib
import os
import re
import stat
import tempfile
from pathlib import Path

from app.database.embedded import EmbeddedServerError
from app.database.embedded.account import Account


class ServerFolder:
    """The data folder of an embedded server.

    If root runs the service, the folder stays root's, and only `home`, `log` and `socket` belong to PostgreSQL's user.
    So that user cannot replace a file by a link just before root writes it or changes its rights.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # held by the one process that starts or stops the server
        self.start_lock = path / "start.lock"
        # shared by all processes that use the server; the process that can hold it alone is the last one
        self.users_lock = path / "users.lock"
        # held by every process of the server itself, as long as it lives
        self.alive_lock = path / "alive.lock"
        self.home = path / "postgresql"  # the folder of the database files, finished and unfinished
        self.cluster = self.home / "cluster"  # the database files (PGDATA)
        self.log = path / "log"
        # copies of the programs, if PostgreSQL's user has no access to the installed ones
        self.binaries = path / "binaries"
        self.socket = path / "socket"  # its folder, if its path is short enough
        self.socket_record = path / "socket-folder"  # has the path of that folder, if it is outside the data folder

    def make(self) -> None:
        """Make the data folder; missing parents get the rights of the user's umask."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def prepare(self, account: Account) -> None:
        """Make the folders of `account` and check that it has access to them.

        Raises EmbeddedServerError: the data folder, or one above it, is closed to `account`.
        """
        locks = {self.start_lock, self.users_lock}
        if account.switch and locks.issuperset(self.path.iterdir()):
            # It holds only this service's locks, so it may be opened to the account; other folders keep their rights.
            os.chown(self.path, 0, account.gid)
            self.path.chmod(0o710)
        for folder in (*reversed(self.path.parents), self.path):
            if not account.can("x", folder):
                raise EmbeddedServerError(
                    f"PostgreSQL runs as user {account.name}, who cannot get to {self.path}: "
                    f"{folder} is closed; choose another data folder"
                )
        account.make_private(self.home)
        account.make_private(self.log)


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
