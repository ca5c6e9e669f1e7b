from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from threading import Lock
from typing import Any, Self, cast

import psycopg
from psycopg import sql
from sqlalchemy import URL, Connection, create_engine, event, func, make_url, select
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import QueuePool

from app.database.errors import (
    DatabaseBusyError,
    DatabaseTooOldError,
    DatabaseUnreachableError,
    DatabaseUrlError,
    as_unavailable,
    first_line,
)

OLDEST_SERVER = 15
_DRIVER = "postgresql+psycopg"
SESSION_SETTINGS = {
    # A transaction that waits longer for a lock waits for one that hangs, so it fails. A process that freezes inside a
    # transaction keeps its locks, so the server ends the transaction after a time.
    "lock_timeout": "20s",
    "idle_in_transaction_session_timeout": "300s",
    # A statement is planned for its values at every call. The plan for any values, which the server takes after some
    # calls otherwise, reads every vote to find the few that a snapshot has not seen.
    "plan_cache_mode": "force_custom_plan",
}


class Database:
    """A pool of connections to one PostgreSQL, and the two kinds of transaction that run on it.

    It connects at the first use. Pickled for another process, it has connections of its own there. Failures of the
    server, as opposed to wrong statements, are raised as an `UnavailableError` of one line without the password.

    `connection_options`: execution options that every connection has, such as those of `Naming`.
    `transaction_pooler`: the URL is of a pooler that gives a server connection for one transaction only (pgbouncer):
    nothing may outlive a transaction, neither prepared statements nor settings.
    `revive`: called if the server cannot be reached, by one thread for all that wait, before the one further attempt.
    """

    def __init__(
        self,
        url: str,
        *,
        pool_size: int = 10,
        connect_timeout: int = 5,
        connection_options: Mapping[str, object] | None = None,
        transaction_pooler: bool = False,
        revive: Callable[[], object] | None = None,
    ) -> None:
        self.url = parse_url(url)
        self.transaction_pooler = transaction_pooler
        self._copied = partial(
            Database,
            self.url.render_as_string(hide_password=False),
            pool_size=pool_size,
            connect_timeout=connect_timeout,
            connection_options=dict(connection_options or {}),
            transaction_pooler=transaction_pooler,
        )
        self._revive = revive
        self._reviving = Lock()
        self._revivals = 0
        self.engine = create_engine(
            self.url,
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=connect_timeout,
            pool_pre_ping=True,
            pool_reset_on_return=None,  # `_end_transaction` does it
            isolation_level="READ COMMITTED",  # the statements need it, whatever the server's default is
            execution_options=dict(connection_options or {}),
            hide_parameters=True,  # they have annotators' keys, and errors are logged
            connect_args={
                "connect_timeout": connect_timeout,
                "application_name": "stable-arena",
                "keepalives_idle": 30,  # a connection that only listens would not notice that the other end is gone
                **({"prepare_threshold": None} if transaction_pooler else {}),
            },
        )
        event.listen(self.engine, "connect", refuse_old_server)
        if transaction_pooler:
            event.listen(self.engine, "begin", _set_up_transaction)
        else:
            event.listen(self.engine, "connect", _set_up_connection)
        event.listen(self.engine, "reset", _end_transaction)
        event.listen(self.engine, "checkin", _restore_write_default)

    def __reduce__(self) -> tuple[Callable[[], Self], tuple[()]]:
        """Pickle how to open it, without `revive`: one process starts a server again."""
        return cast("Callable[[], Self]", self._copied), ()

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """Run a READ COMMITTED transaction, which is committed when the block ends and rolled back if it raises."""
        with self._connect() as conn, _translated(writing=True), conn.begin():
            yield conn

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Run a read-only REPEATABLE READ transaction: all its statements see the same state."""
        with self._connect() as conn, _translated():
            view = conn.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            with view.begin():
                yield view

    @contextmanager
    def statements(self) -> Iterator[Connection]:
        """Run statements that each commit by themselves."""
        with self._connect() as conn, _translated(writing=True):
            yield conn.execution_options(isolation_level="AUTOCOMMIT")

    @contextmanager
    def listen(self, channel: str) -> Iterator[psycopg.Connection[Any]]:
        """Open a connection that is none of the pool's, and gets what is sent to a channel by NOTIFY."""
        with self._connect() as conn, _translated(writing=True):
            connection = driver_of(conn)
            conn.detach()
            connection.autocommit = True
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
            yield connection

    def _connect(self) -> Connection:
        revivals = self._revivals
        try:
            return self._connect_once()
        except DatabaseUnreachableError:
            if self._revive is None:
                raise
            with self._reviving:
                # A thread that waited while another one tried does not try again: each would make the next one wait.
                if self._revivals == revivals:
                    try:
                        self._revive()
                    finally:
                        self._revivals += 1
        return self._connect_once()

    def _connect_once(self) -> Connection:
        try:
            return self.engine.connect()
        except PoolTimeoutError as error:
            raise DatabaseBusyError("every database connection of this process is in use") from error
        except DBAPIError as error:
            raise as_unavailable(error) or DatabaseUnreachableError(first_line(error.orig)) from error

    @property
    def pool(self) -> QueuePool:
        """The connections."""
        return cast("QueuePool", self.engine.pool)

    def close(self) -> None:
        """Close the idle connections now, and the others when they are given back."""
        event.listen(self.pool, "checkin", lambda _connection, record: record.close())
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def _translated(*, writing: bool = False) -> Iterator[None]:
    """Raise failures of the server inside the block as one of our errors."""
    try:
        yield
    except (DBAPIError, psycopg.Error) as error:  # COPY does not use SQLAlchemy
        unavailable = as_unavailable(error, writing=writing)
        if unavailable is None:
            raise
        raise unavailable from error


def parse_url(url: str) -> URL:
    """Return the URL with our driver in it.

    Raises DatabaseUrlError: it is not a PostgreSQL URL. The message does not repeat it, because it may have a password.
    """
    # The rest of a password after an @ or ? would be read as the host or an option, and error messages would show it.
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


def refuse_old_server(connection: Any, _record: object) -> None:
    """Refuse a new connection to a server that is older than the statements need. Raises DatabaseTooOldError."""
    major = connection.info.server_version // 10_000
    if major < OLDEST_SERVER:
        raise DatabaseTooOldError(f"the server is PostgreSQL {major}; {OLDEST_SERVER} or newer is needed")


def _end_transaction(connection: Any, record: Any, state: Any) -> None:
    """Roll back what a connection has open when it is given back.

    The loss of a connection was raised where it was used. SQLAlchemy's own rollback would log it once more, with a
    traceback, where it had not noticed: after COPY, and while it waits for notices.
    """
    if state.terminate_only and record is None:
        return  # it is closed anyway
    try:
        connection.rollback()
    except psycopg.OperationalError as error:
        if record is not None:
            record.invalidate(e=error)


def _restore_write_default(connection: Any, _record: object) -> None:
    """Let `default_transaction_read_only` decide again whether writes are allowed.

    After a read, SQLAlchemy begins every transaction as READ WRITE, which an operator's setting would not stop.
    """
    if connection is not None and not connection.closed and connection.read_only is False:
        connection.read_only = None


def _set_up_transaction(connection: Connection) -> None:
    # No query, after which a transaction cannot take over what another one sees.
    connection.exec_driver_sql("; ".join(f"SET LOCAL {name} = '{value}'" for name, value in SESSION_SETTINGS.items()))


def _set_up_connection(connection: Any, _record: object) -> None:
    # Statements, because some poolers refuse connection options.
    with connection.cursor() as cursor:
        for name, value in SESSION_SETTINGS.items():
            cursor.execute("SELECT set_config(%s, %s, false)", (name, value))
    connection.commit()


def driver_of(conn: Connection) -> psycopg.Connection[Any]:
    """Return the driver's own connection, for what SQLAlchemy does not have: COPY, notices, bytes."""
    return cast("psycopg.Connection[Any]", conn.connection.driver_connection)


def database_time(conn: Connection) -> datetime:
    """Return the time by the database's clock."""
    now: datetime = conn.execute(select(func.clock_timestamp())).scalar_one()
    return now
