"""The embedded server as the rest of the service uses it."""

import contextlib
import os
from pathlib import Path
from typing import Self

import psycopg
from psycopg import sql
from sqlalchemy import URL

from app.database.embedded import EmbeddedServerError
from app.database.embedded.account import Account, choose_account
from app.database.embedded.cluster import SUPERUSER, ensure_cluster, find_binaries
from app.database.embedded.folder import PORT, ServerFolder, discard_temporary_folder, socket_folder
from app.database.embedded.locks import FileLock, hold_exclusive, hold_shared, try_exclusive
from app.database.embedded.postmaster import last_words, launch, stop, wait_until_ready

NAME = "stable_arena"
"""The service's role and its database."""


class EmbeddedServer:
    """A PostgreSQL of the service's own in one folder, shared by the processes that use it.

    The first `start` makes the database and starts the server, later ones join it, and the last `release` stops it.
    Each user of the server holds a lock that the kernel releases at the process's end. So killed processes do not
    count, and the next process takes over the server that they left running. The server listens only on a socket
    that is closed to other users.

    `data_dir`: The folder of the database, made if it is missing. If root runs the service, PostgreSQL runs as an
    unprivileged user (`postgres` or `nobody`), who must have access to the folder.
    """

    def __init__(self, data_dir: Path) -> None:
        self._folder = ServerFolder(Path(data_dir).absolute())
        self._use: FileLock | None = None
        self._url: str | None = None

    @property
    def url(self) -> str:
        """The database's URL for SQLAlchemy; the server must have been started."""
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
        """Start the server unless it runs, and return the URL when it takes connections.

        After a crash that takes as long as PostgreSQL needs to replay its log. A second call is harmless, and starts
        a server that has died again.

        Raises EmbeddedServerError: the server cannot be started; the message says why in one line.
        """
        try:
            self._folder.make()
            with hold_exclusive(self._folder.start_lock):
                if self._use is None or not self._use.held:
                    self._use = hold_shared(self._folder.users_lock)
                try:
                    self._url = self._bring_up()
                except BaseException:
                    with contextlib.suppress(EmbeddedServerError):  # the first error is the one to report
                        self._leave()
                    raise
        except (OSError, psycopg.Error) as error:
            raise self._translated(error) from error
        return self._url

    def release(self) -> None:
        """End this process's use of the server, and stop it if no other process uses it; a second call is harmless.

        Raises EmbeddedServerError: the server did not stop.
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
        _ensure_database(socket)
        return _database_url(socket)

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
        # The start lock is held: no process can join between the question whether one is left and the stop.
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

    def __exit__(self, *_: object) -> None:
        self.release()


def _ensure_database(socket: Path) -> None:
    """Make the service's role and database if they are missing.

    The role is no superuser and may create databases, as on a server in production, so that no part of the service
    comes to need more.
    """
    name = sql.Identifier(NAME)
    with psycopg.connect(host=str(socket), port=PORT, user=SUPERUSER, dbname="postgres", autocommit=True) as connection:
        if not connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [NAME]).rowcount:
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN CREATEDB").format(name))
        if not connection.execute("SELECT FROM pg_database WHERE datname = %s", [NAME]).rowcount:
            connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(name, name))


def _database_url(socket: Path) -> str:
    """Return the URL of the service's database; it names the port, so that PGPORT has no effect."""
    url = URL.create("postgresql+psycopg", username=NAME, database=NAME, query={"host": str(socket), "port": str(PORT)})
    return url.render_as_string(hide_password=False)
