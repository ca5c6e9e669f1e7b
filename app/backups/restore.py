from pathlib import Path

from sqlalchemy import Connection

from app.backups import queries as store
from app.backups.archive import ArchiveReader, DamagedBackupError, Manifest, open_archive
from app.database.engine import Database
from app.database.schema import (
    current_revision,
    downgrade_within,
    known_revisions,
    lock_schema,
    upgrade_within,
)
from app.errors import BadInputError, ConflictError, UnavailableError
from app.refits.reproduce import Reproduction, reproduce
from app.snapshots.queries import newest_number

_MOST_USED_UP = 10_000_000

# What a service that was only started has written: its policy of defaults, its secrets, its leases.
_FRESH = {"policies": "created_by <> 'migration'", "service_secrets": "FALSE", "leases": "FALSE"}


class DatabaseNotEmptyError(ConflictError):
    """The database to restore into holds data."""

    code = "database-not-empty"
    title = "The database is not empty"


class ServerOccupiedError(UnavailableError):
    """A transaction on the server is older than the numbers that the backup needs."""

    code = "server-occupied"
    title = "An old transaction is open on the server"


def restore_backup(database: Database, path: Path) -> Manifest:
    """Fill an empty database from a backup, and bring it to this version's schema: all of it in one transaction.

    `database`: holds nothing, or what a service has written that was only started.
    Raises DamagedBackupError: the file is no backup, or not as it was written.
    Raises BadInputError: a newer version made the backup.
    Raises DatabaseNotEmptyError.
    Raises ServerOccupiedError.
    """
    with open_archive(path) as archive:
        manifest = archive.manifest
        if manifest.revision not in known_revisions():
            raise BadInputError(
                f"version {manifest.version} made the backup, with the schema {manifest.revision}, which this version "
                "does not know: restore it with that version or a newer one"
            )
        _reach_numbers(database, manifest.numbers)
        with database.begin() as conn:
            _prepare(conn, manifest.revision)
            _load(conn, archive)
            upgrade_within(conn)
    with database.begin() as conn:
        store.analyse(conn)
    return manifest


def refit_newest(database: Database) -> Reproduction | None:
    """Refit the newest snapshot and compare it with what was published; None without a snapshot."""
    with database.read() as conn:
        newest = newest_number(conn)
    return reproduce(database, str(newest)) if newest else None


def _reach_numbers(database: Database, highest: int) -> None:
    """Let the cluster's transactions be past the numbers of the backup: a cluster begins at some hundreds."""
    with database.read() as conn:
        missing = highest - store.oldest_transaction(conn) + 1
    if missing <= 0:
        return
    if missing > _MOST_USED_UP:
        raise DamagedBackupError(f"the backup numbers {highest:,} transactions, which no service makes")
    with database.statements() as conn:
        store.use_up_transactions(conn, missing)
    with database.read() as conn:
        if store.oldest_transaction(conn) <= highest:
            raise ServerOccupiedError(
                "a transaction has been open on this server for long: end it (see pg_stat_activity), then restore again"
            )


def _prepare(conn: Connection, revision: str) -> None:
    """Bring the empty database to the schema of the backup, without any row."""
    lock_schema(conn)
    _refuse_data(conn)
    found = current_revision(conn)
    if found != revision:
        if found is not None:
            downgrade_within(conn, "base")
        upgrade_within(conn, revision)
    store.empty_tables(conn)


def _refuse_data(conn: Connection) -> None:
    tables = [table.name for table in store.list_tables(conn)]
    if current_revision(conn) is None:
        if tables:
            raise DatabaseNotEmptyError(f"the database holds tables of another program, such as {tables[0]}")
        return
    filled = [name for name in tables if store.holds_rows(conn, name, _FRESH.get(name, "TRUE"))]
    if filled:
        raise DatabaseNotEmptyError(
            f"the database holds data already ({', '.join(filled[:3])}): restore into an empty database or data folder"
        )


def _load(conn: Connection, archive: ArchiveReader) -> None:
    store.settle_formats(conn)
    manifest = archive.manifest
    here = {table.name: set(table.columns) for table in store.list_tables(conn)}
    if here != {table.name: set(table.columns) for table in manifest.tables}:
        raise DamagedBackupError(f"the backup's tables are not those of the schema {manifest.revision}")
    indexes = store.drop_indexes(conn)
    for table in manifest.tables:
        rows = store.copy_in(conn, table.name, table.columns, archive.rows_of(table))
        if rows != table.rows:
            raise DamagedBackupError(f"{table.name} has {rows:,} rows and should have {table.rows:,}")
    store.make_indexes(conn, indexes)
    store.set_last_numbers(conn, manifest.sequences)
