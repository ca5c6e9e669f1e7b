from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection, text

import app
from app.backups import queries as store
from app.backups.archive import ArchiveWriter, Manifest, open_archive
from app.database.engine import Database
from app.database.schema import SchemaBehindError, current_revision, known_revisions
from app.drafts import draft_of
from app.errors import BadInputError
from app.snapshots.vote_sets import holds_foreign_rows

_NAME = "stable-arena-{:%Y%m%dT%H%M%SZ}.zip"
_NAMES = "stable-arena-*Z.zip"


def write_backup(database: Database, target: Path) -> tuple[Path, Manifest]:
    """Write the whole database to a file, as one transaction sees it, and read the file once to check it.

    Votes may come in meanwhile: those that the transaction does not see are not in the file. The file gets its name
    when it is complete, and only its owner may read it.

    `target`: the file to make, or a folder that gets a file named by the time.
    Raises BadInputError: there is such a file already, or no such folder.
    Raises SchemaBehindError: the database has no schema, or one that this version does not know.
    """
    path = _place(target)
    with draft_of(path.absolute(), private=True) as draft, database.read() as conn:
        manifest = _write(conn, draft)
        with open_archive(draft) as archive:
            archive.check()
    return path, manifest


def drop_old_backups(folder: Path, keep: int) -> list[Path]:
    """Delete the backups of a folder that are named by their time, all but the newest; return what was deleted."""
    old = sorted(folder.glob(_NAMES), reverse=True)[keep:]
    for path in old:
        path.unlink()
    return old


def _write(conn: Connection, path: Path) -> Manifest:
    store.settle_formats(conn)
    revision = current_revision(conn)
    if revision is None:
        raise SchemaBehindError("there is nothing to back up: the schema is empty")
    if revision not in known_revisions():
        raise SchemaBehindError(f"the schema is at {revision}, which this version does not know: back up with that one")
    tables = store.list_tables(conn)
    lines = store.dividing_lines(store.read_vote_sets(conn, tables))
    writer = ArchiveWriter(path)
    written = [
        writer.add_table(table.name, list(table.columns), store.copy_out(conn, table, lines)) for table in tables
    ]
    manifest = Manifest(
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        version=app.__version__,
        revision=revision,
        server=str(conn.execute(text("SHOW server_version")).scalar_one()),
        numbers=store.highest_number(lines),
        reproducible=not holds_foreign_rows(conn),
        tables=written,
        sequences=store.last_numbers(conn),
    )
    writer.finish(manifest)
    return manifest


def _place(target: Path) -> Path:
    path = target / _NAME.format(datetime.now(UTC)) if target.is_dir() else target
    if path.exists():
        raise BadInputError(f"{path} exists already")
    if not path.absolute().parent.is_dir():
        raise BadInputError(f"the folder {path.absolute().parent} does not exist")
    return path
