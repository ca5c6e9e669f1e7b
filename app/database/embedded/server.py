import contextlib
import os
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg

from app.database.embedded.account import Account, choose_account
from app.database.embedded.binaries import find_binaries
from app.database.embedded.cluster import ensure_cluster
from app.database.embedded.database import database_url, ensure_database
from app.database.embedded.errors import EmbeddedServerError
from app.database.embedded.folder import ServerFolder
from app.database.embedded.locks import FileLock, hold_exclusive, hold_shared, try_exclusive
from app.database.embedded.postmaster import last_words, launch, stop, wait_until_ready
from app.database.embedded.sockets import discard_temporary_folder, socket_folder


class EmbeddedServer:
    """A PostgreSQL of the service's own in one folder, shared by the processes that use it.

    The first `start` makes the database and starts the server, later ones, of any process, join it; the last
    `release` stops it. Who uses it is counted by locks that the kernel drops with their process, so killed
    processes do not count, and the server that they leave behind is joined, and stopped, by the next.
    It listens on a socket that only its owner can reach.

    Parameters
    ----------
    data_dir
        The folder of the database, made if missing. Where root runs the service, PostgreSQL runs as an
        unprivileged user (`postgres` or `nobody`), who must be able to get there.
    """

    def __init__(self, data_dir: Path) -> None:
        self._folder = ServerFolder(Path(data_dir).absolute())
        self._use: FileLock | None = None
        self._url: str | None = None

    @property
    def url(self) -> str:
        """The database's URL for SQLAlchemy, once the server was started."""
        if self._url is None:
            raise EmbeddedServerError("the embedded PostgreSQL was not started")
        return self._url

    def has_database(self) -> bool:
        """Return whether the folder holds a database, without making or starting anything."""
        try:
            return self._folder.cluster.exists()
        except OSError as error:
            raise self._translated(error) from error

    def start(self) -> str:
        """Use the server: start it unless it runs, and return the URL once it takes connections.

        That takes as long as PostgreSQL needs to replay its log after a crash. Calling it again is harmless and
        brings back a server that died meanwhile.

        Raises
        ------
        EmbeddedServerError
            The server cannot be started; the message says why in one line.
        """
        try:
            self._folder.make()
            with hold_exclusive(self._folder.start_lock):
                if self._use is None or not self._use.held:
                    self._use = hold_shared(self._folder.users_lock)
                try:
                    self._url = self._bring_up()
                except BaseException:
                    with contextlib.suppress(EmbeddedServerError):  # the first error is the one to tell
                        self._leave()
                    raise
        except (OSError, psycopg.Error) as error:
            raise self._translated(error) from error
        return self._url

    def release(self) -> None:
        """Give up this process's use of the server, and stop it if that was the last; harmless when repeated.

        Raises
        ------
        EmbeddedServerError
            The server did not stop.
        """
        if self._use is None or not self._use.held:
            return
        try:
            with hold_exclusive(self._folder.start_lock):
                self._leave()
        except OSError as error:
            raise self._translated(error) from error

    def _bring_up(self) -> str:
        account = choose_account(self._folder.home)
        self._folder.prepare(account)
        socket = socket_folder(self._folder, account)
        if not wait_until_ready(self._folder, socket):
            self._launch(account, socket)
            if not wait_until_ready(self._folder, socket):
                raise EmbeddedServerError(f"PostgreSQL did not come up: see {last_words(self._folder.log)}")
        ensure_database(socket)
        return database_url(socket)

    def _launch(self, account: Account, socket: Path) -> None:
        programs = find_binaries(account, self._folder.binaries)
        alive = try_exclusive(self._folder.alive_lock)
        if alive is None:
            raise EmbeddedServerError(f"another program holds {self._folder.alive_lock}")
        try:
            ensure_cluster(self._folder, programs, account, alive)
            launch(self._folder, programs, account, socket, alive)
        finally:
            alive.hand_over()

    def _leave(self) -> None:
        # Under the start lock: nobody can join between the question who is left and the stop.
        if self._use is not None:
            self._use.release()
        last = try_exclusive(self._folder.users_lock)
        if last is not None:
            with last:
                stop(self._folder)
                discard_temporary_folder(self._folder)

    def _translated(self, error: Exception) -> EmbeddedServerError:
        path = self._folder.path
        first_line = (str(error).splitlines() or [type(error).__name__])[0]
        if isinstance(error, PermissionError):
            return EmbeddedServerError(f"{path} is not writable by user id {os.geteuid()}: {error}")
        return EmbeddedServerError(f"the database in {path} cannot be used: {first_line}")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
