"""The names of files and folders in the data folder."""

import os
from dataclasses import dataclass
from pathlib import Path

from app.database.embedded import EmbeddedServerError
from app.database.embedded.account import Account


@dataclass(frozen=True)
class ServerFolder:
    """The data folder of an embedded server.

    If root runs the service, the folder stays root's, and only `home`, `log` and `socket` belong to PostgreSQL's user.
    So that user cannot replace a file by a link just before root writes it or changes its rights.
    """

    path: Path

    @property
    def start_lock(self) -> Path:
        """Held by the one process that starts or stops the server."""
        return self.path / "start.lock"

    @property
    def users_lock(self) -> Path:
        """Shared by all processes that use the server; the process that can hold it alone is the last one."""
        return self.path / "users.lock"

    @property
    def alive_lock(self) -> Path:
        """Held by every process of the server itself, as long as it lives."""
        return self.path / "alive.lock"

    @property
    def home(self) -> Path:
        """The folder of the database files, finished and unfinished."""
        return self.path / "postgresql"

    @property
    def cluster(self) -> Path:
        """The database files (PGDATA)."""
        return self.home / "cluster"

    @property
    def log(self) -> Path:
        """The server's log files."""
        return self.path / "log"

    @property
    def binaries(self) -> Path:
        """Copies of the programs, if PostgreSQL's user has no access to the installed ones."""
        return self.path / "binaries"

    @property
    def socket(self) -> Path:
        """The folder of the socket, if its path is short enough."""
        return self.path / "socket"

    @property
    def socket_record(self) -> Path:
        """A file with the path of the socket's folder, if that is outside the data folder."""
        return self.path / "socket-folder"

    def make(self) -> None:
        """Make the data folder; missing parents get the rights of the user's umask."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def prepare(self, account: Account) -> None:
        """Make the folders of `account` and check that it has access to them.

        Raises
        ------
        EmbeddedServerError
            The data folder, or one above it, is closed to `account`.
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
