from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any, Self, cast

import psycopg
from sqlalchemy import URL, Connection, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import QueuePool

from app.errors import BadInputError, UnavailableError

OLDEST_SERVER = 15
USED_ONCE = "used once"
"""In a connection's `info` it says that the connection is to be closed when it is given back."""
_DRIVER = "postgresql+psycopg"
# SQLSTATE classes and codes that say something about the server's state, nothing about the statement. 25P03 and 25P04
# are a transaction that was silent or went on for too long; 53 a full disk, no memory, no connection left; 58 a file
# that cannot be read; XX what the server has no other name for, such as a used-up quota or a damaged page; 25006 a
# server that takes no writes: a standby, or one that its operator has closed to them.
_LOST = ("08", "57", "25P03", "25P04")
_CONTENDED = ("40001", "40P01")
_BUSY = ("53", "58", "XX", "55P03", "57014")
_TAKES_NO_WRITES = "25006"
# Whoever waits so long for a lock waits for a transaction that hangs: better to be told so than to hang too. A process
# that froze with a transaction open keeps what it locked from all others, so the server ends it.
_LOCK_SECONDS = 20
_SILENT_SECONDS = 300


class DatabaseUrlError(BadInputError):
    """The database's address cannot be understood."""

    code = "database-url"
    title = "The database URL is not valid"


class DatabaseUnreachableError(UnavailableError):
    """No connection could be made, or the one in use was lost."""

    code = "database-unreachable"
    title = "The database cannot be reached"
    public = False


class DatabaseBusyError(UnavailableError):
    """The database is there but could not do this now: no free connection, a full disk, a file it cannot read."""

    code = "database-busy"
    title = "The database is busy"
    public = False


class DatabaseReadOnlyError(DatabaseBusyError):
    """The database takes no writes: a standby, or one that its operator has closed to them."""

    public = True


class DatabaseContendedError(DatabaseBusyError):
    """Two transactions were in each other's way and this one gave in; it can be run again at once."""


class DatabaseTooOldError(UnavailableError):
    """The server lacks what the statements need."""

    code = "database-too-old"
    title = "The database server is too old"


class Database:
    """A pool of connections to one PostgreSQL, and the two kinds of transaction that are run on it.

    Nothing is connected before the first use. What goes wrong with the server, as against the statement,
    is raised as an `UnavailableError` with one line that never contains the password, nor is shown to callers where it
    may say where the database is. `revive` is called, by one
    thread for all that wait, when the server cannot be reached, before the one further attempt. `naming` goes with
    every connection. `embedded`: the server is this machine's own and nobody else's.
    """

    def __init__(
        self,
        url: str,
        *,
        pool_size: int = 10,
        connect_timeout: int = 5,
        connection_options: Mapping[str, object] | None = None,
        revive: Callable[[], object] | None = None,
        embedded: bool = False,
    ) -> None:
        self.url = parse_url(url)
        self._revive = revive
        self.embedded = embedded
        self._reviving = Lock()
        self._revivals = 0
        self._engine = create_engine(
            self.url,
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=connect_timeout,
            pool_pre_ping=True,
            isolation_level="READ COMMITTED",  # whatever the server's default is: the statements count on it
            execution_options=dict(connection_options or {}),
            hide_parameters=True,  # they hold who voted, and errors end in logs
            connect_args={"connect_timeout": connect_timeout, "application_name": "stable-arena"},
        )
        event.listen(self._engine, "connect", _refuse_old_server)
        event.listen(self._engine, "connect", _bound_waiting)
        event.listen(self._engine, "checkin", _let_the_server_say)
        event.listen(self._engine, "checkin", _close_if_used_once)

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """Run a READ COMMITTED transaction: committed when the block ends, rolled back when it raises."""
        with self._connect() as conn, _translated(writing=True), conn.begin():
            yield conn

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Run a read-only REPEATABLE READ transaction: every statement in it sees the same moment."""
        with self._connect() as conn, _translated():
            view = conn.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            with view.begin():
                yield view

    def _connect(self) -> Connection:
        revivals = self._revivals
        try:
            return self._connect_once()
        except DatabaseUnreachableError:
            if self._revive is None:
                raise
            with self._reviving:
                # Who waited while another tried, in vain or not, need not try again: each would keep the next waiting.
                if self._revivals == revivals:
                    try:
                        self._revive()
                    finally:
                        self._revivals += 1
        return self._connect_once()

    def _connect_once(self) -> Connection:
        try:
            return self._engine.connect()
        except PoolTimeoutError as error:
            raise DatabaseBusyError("every database connection of this process is in use") from error
        except DBAPIError as error:
            raise _as_unavailable(error) or DatabaseUnreachableError(_line(error.orig)) from error

    @property
    def connections_in_use(self) -> int:
        """How many of the pool's connections are in somebody's hands."""
        return self._pool.checkedout()

    @property
    def pool_size(self) -> int:
        """How many connections there may be."""
        return self._pool.size()

    @property
    def _pool(self) -> QueuePool:
        return cast("QueuePool", self._engine.pool)

    def close(self) -> None:
        """Close every idle connection, and every one in use when it is given back."""
        event.listen(self._pool, "checkin", lambda _connection, record: record.close())
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def parse_url(url: str) -> URL:
    """Return the URL with our driver in it.

    Raises
    ------
    DatabaseUrlError
        It is not a PostgreSQL URL. The message does not repeat it: it may hold a password.
    """
    # What follows the first @ or ? of a password would be taken for the host or an option, and told where it cannot be.
    place, _, options = url.partition("?")
    if place.count("@") > 1 or any("@" in option.partition("=")[0] for option in options.split("&")):
        raise DatabaseUrlError("the database URL has more than one @: in a password it must be written %40")
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        parsed = None
    if parsed is None or parsed.drivername not in ("postgresql", "postgres", _DRIVER):
        raise DatabaseUrlError("the database URL must look like postgresql://user:password@host:port/name")
    return parsed.set(drivername=_DRIVER)


@contextmanager
def _translated(*, writing: bool = False) -> Iterator[None]:
    try:
        yield
    except (DBAPIError, psycopg.Error) as error:  # COPY goes past SQLAlchemy
        unavailable = _as_unavailable(error, writing=writing)
        if unavailable is None:
            raise
        raise unavailable from error


def _as_unavailable(error: DBAPIError | psycopg.Error, *, writing: bool = False) -> UnavailableError | None:
    """Return the error as the server's trouble, or None where the statement itself was at fault."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    state = getattr(cause, "sqlstate", None) or ""
    if state in _CONTENDED:
        return DatabaseContendedError(_line(cause))
    if writing and state == _TAKES_NO_WRITES:
        return DatabaseReadOnlyError("the database takes no writes: it is a standby, or closed to them by its operator")
    if state.startswith(_BUSY):
        return DatabaseBusyError(_line(cause))
    # Without a state of the server's it is the driver that speaks, of a connection that is gone.
    silent = isinstance(cause, psycopg.OperationalError) and not state
    if silent or state.startswith(_LOST) or (isinstance(error, DBAPIError) and error.connection_invalidated):
        return DatabaseUnreachableError(_line(cause))
    return None


def _line(cause: BaseException | None) -> str:
    """Return what the server said first; its details and the context may repeat what was to be stored."""
    said = cause.diag.message_primary if isinstance(cause, psycopg.Error) else None
    return " ".join((said or str(cause)).split())


def _refuse_old_server(connection: Any, _record: object) -> None:
    major = connection.info.server_version // 10_000
    if major < OLDEST_SERVER:
        raise DatabaseTooOldError(f"the server is PostgreSQL {major}; {OLDEST_SERVER} or newer is needed")


def _close_if_used_once(_connection: object, record: Any) -> None:
    if record.info.get(USED_ONCE):
        record.close()


def _let_the_server_say(connection: Any, _record: object) -> None:
    """Leave it to `default_transaction_read_only` again whether there may be writes.

    After a read SQLAlchemy has every transaction begin as READ WRITE, which an operator's freeze would not stop.
    """
    if connection is not None and not connection.closed and connection.read_only is False:
        connection.read_only = None


def _bound_waiting(connection: Any, _record: object) -> None:
    # Statements, not options of the connection: some poolers refuse those.
    with connection.cursor() as cursor:
        cursor.execute(f"SET lock_timeout = '{_LOCK_SECONDS}s'")
        cursor.execute(f"SET idle_in_transaction_session_timeout = '{_SILENT_SECONDS}s'")
    connection.commit()
