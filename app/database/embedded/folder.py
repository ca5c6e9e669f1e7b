import os
from dataclasses import dataclass
from pathlib import Path

from app.database.embedded.account import Account
from app.database.embedded.errors import EmbeddedServerError


@dataclass(frozen=True)
class ServerFolder:
    """What lies where in the data folder.

    Where root runs the service, the folder stays root's and only `home`, `log` and `socket` belong to PostgreSQL's
    user: what root writes or changes the rights of cannot be swapped by that user for a link.
    """

    path: Path

    @property
    def start_lock(self) -> Path:
        """Held alone by whoever starts or stops the server."""
        return self.path / "start.lock"

    @property
    def users_lock(self) -> Path:
        """Held together by every process that uses the server: who gets it alone was the last."""
        return self.path / "users.lock"

    @property
    def alive_lock(self) -> Path:
        """Held by every process of the server itself, from its first to its last."""
        return self.path / "alive.lock"

    @property
    def home(self) -> Path:
        """The folder of the database files, and of those still being made."""
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
        """Copies of the programs, where PostgreSQL's user cannot reach the installed ones."""
        return self.path / "binaries"

    @property
    def socket(self) -> Path:
        """The folder of the socket, where its path is short enough."""
        return self.path / "socket"

    @property
    def socket_record(self) -> Path:
        """Names the folder of the socket where it had to be somewhere else."""
        return self.path / "socket-folder"

    def make(self) -> None:
        """Make the data folder itself; its parents get the rights that the user's umask gives."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def prepare(self, account: Account) -> None:
        """Make what belongs to `account`, and see that it can get there.

        Raises
        ------
        EmbeddedServerError
            `account` cannot pass through the data folder or one above it.
        """
        locks = {self.start_lock, self.users_lock}
        if account.switch and locks.issuperset(self.path.iterdir()):
            # Nothing but our locks in it: ours to open, a crack. A folder with anything else in it is left as it is.
            os.chown(self.path, 0, account.gid)
            self.path.chmod(0o710)
        for folder in (*reversed(self.path.parents), self.path):
            if not account.can("x", folder):
                raise EmbeddedServerError(
                    f"user {account.name}, as whom PostgreSQL runs, cannot get to {self.path}: "
                    f"{folder} is closed to it; choose another data folder"
                )
        account.make_private(self.home)
        account.make_private(self.log)
