"""Failures of the database server as errors of the service."""

import psycopg
from sqlalchemy.exc import DBAPIError

from app.errors import BadInputError, UnavailableError

# SQLSTATE classes and codes of the server's state, not of the statement. 25P03 and 25P04: a transaction was idle or
# lasted too long. 53: full disk, no memory, no connection left. 58: a file cannot be read. XX: other failures, such as
# a used-up quota or a damaged page. 25006: the server is a standby, or its operator has made it read-only.
_LOST = ("08", "57", "25P03", "25P04")
_CONTENDED = ("40001", "40P01")
_BUSY = ("53", "58", "XX", "55P03", "57014")
_TAKES_NO_WRITES = "25006"


class DatabaseUrlError(BadInputError):
    """The database's URL is not valid."""

    code = "database-url"
    title = "The database URL is not valid"


class DatabaseUnreachableError(UnavailableError):
    """No connection could be made, or the one in use was lost."""

    code = "database-unreachable"
    title = "The database cannot be reached"
    public = False


class DatabaseBusyError(UnavailableError):
    """The database could not do this now: no free connection, a full disk, a file that it cannot read."""

    code = "database-busy"
    title = "The database is busy"
    public = False


class DatabaseReadOnlyError(DatabaseBusyError):
    """The database is read-only: it is a standby, or its operator has made it so."""

    public = True


class DatabaseContendedError(DatabaseBusyError):
    """The transaction was ended because it conflicted with another one. It can be run again at once."""


class DatabaseTooOldError(UnavailableError):
    """The server is older than the statements need."""

    code = "database-too-old"
    title = "The database server is too old"


def as_unavailable(error: DBAPIError | psycopg.Error, *, writing: bool = False) -> UnavailableError | None:
    """Return the error as a failure of the server, or None if the statement was wrong."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    state = getattr(cause, "sqlstate", None) or ""
    if state in _CONTENDED:
        return DatabaseContendedError(first_line(cause))
    if writing and state == _TAKES_NO_WRITES:
        return DatabaseReadOnlyError("the database is read-only: it is a standby, or its operator has made it so")
    if state.startswith(_BUSY):
        return DatabaseBusyError(first_line(cause))
    # Errors without a state come from the driver: the connection is lost.
    silent = isinstance(cause, psycopg.OperationalError) and not state
    if silent or state.startswith(_LOST) or (isinstance(error, DBAPIError) and error.connection_invalidated):
        return DatabaseUnreachableError(first_line(cause))
    return None


def first_line(cause: BaseException | None) -> str:
    """Return the server's primary message. Its details and context may repeat the values of the statement."""
    said = cause.diag.message_primary if isinstance(cause, psycopg.Error) else None
    return " ".join((said or str(cause)).split())
