"""Imports: their options, their progress, and the errors in the files."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from typing import Any, Literal, Self
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from app.database.engine import Database
from app.errors import BadInputError, NotFoundError
from app.imports import queries as store
from app.imports.formats.options import ReadOptions
from app.imports.formats.schemas import find_schema, read_columns, read_verdicts
from app.imports.formats.where import read_conditions
from app.imports.formats.words import unknown_word
from app.imports.schemas import Import, ImportDetails, ImportFault
from app.leaderboard.row_files import rows_csv
from app.naming.names import name_error

MAX_FAULTS_STORED = 100_000
_SAMPLE = 10
_PAGE = 5_000


@dataclass(frozen=True)
class ImportOptions(ReadOptions):
    """The options of an import: how its file is read, and what is done with the votes.

    Attributes
    ----------
    skip_invalid : leave out invalid records instead of refusing the file.
    again : import the file even if it was imported before.
    new_rows_only : leave out the votes that are on record already, instead of refusing a file that has many of them.
    allow_repeats : record such votes too, as further votes.
    dry_run : check and count the records, store nothing.
    """

    skip_invalid: bool = False
    again: bool = False
    dry_run: bool = False
    new_rows_only: bool = False
    allow_repeats: bool = False
    keep_features: bool = True

    def __post_init__(self) -> None:
        """Refuse options that no file can be read by, or that exclude each other."""
        if self.new_rows_only and self.allow_repeats:
            raise BadInputError("new_rows_only and allow_repeats exclude each other")
        if self.pool_annotators and self.annotator_column is not None:
            raise BadInputError("pool_annotators and annotator_column exclude each other")
        if self.schema is not None:
            find_schema(self.schema)
        read_columns(self.columns)
        read_verdicts(self.verdict)
        read_conditions(self.where)
        if self.annotator_column is not None and "\x00" in self.annotator_column:
            raise BadInputError("/annotator_column: must not contain the character U+0000")
        if self.annotator_prefix and (fault := name_error(f"{self.annotator_prefix}x")):
            raise BadInputError(f"/annotator_prefix: {fault}")

    @classmethod
    def stored(cls, given: Mapping[str, Any]) -> Self:
        """Return the options that an import was begun with; an earlier version knew fewer."""
        known = {one.name: given[one.name] for one in fields(cls) if one.name in given}
        return cls(**{**known, **{name: tuple(known.get(name, ())) for name in ("verdict", "where")}})

    def known_again(self) -> "ImportOptions":
        """Return the options for a file that is imported once more on purpose: all its votes are repeats."""
        return self if self.new_rows_only else replace(self, allow_repeats=True)


def open_import(
    conn: Connection,
    import_id: UUID,
    sha256: bytes,
    options: ImportOptions,
    *,
    suffix: str | None = None,
    **values: Any,
) -> RowMapping:
    """Return the import of a file, locked: the earlier one of this file, or a new one with this id and these values.

    There is a new one for a file that was not imported before, for one that is to be imported `again`, and for a dry
    run. `suffix` is the ending of an uploaded file.
    """
    store.lock_file(conn, sha256)
    earlier = None if options.dry_run else store.find_import(conn, sha256, to_change=True)
    if earlier is not None and not (options.again and earlier["state"] == "done"):
        return earlier
    given = asdict(options.known_again() if earlier else options) | ({"suffix": suffix} if suffix else {})
    store.add_import(conn, import_id, {**values, "sha256": sha256, "options": given})
    return store.lock_import(conn, import_id)


OF_THE_RECORD = ("duplicates", "retracted", "conflicts")
"""Counts that need the stored votes, which a dry run does not read."""


def find_import(conn: Connection, import_id: UUID) -> ImportDetails:
    """Return an import with its first errors. Raises NotFoundError."""
    row = store.get_import(conn, import_id)
    if row is None:
        raise NotFoundError(f"there is no import {import_id}")
    faults = [ImportFault(**fault) for fault in store.list_faults(conn, import_id, limit=_SAMPLE)]
    return ImportDetails(**row, faults=faults, n_faults=store.count_faults(conn, import_id))


def find_unknown_words(conn: Connection, import_id: UUID) -> list[tuple[str, int]]:
    """Return the outcome words that an import did not know, by the errors stored, with their number."""
    found = [(unknown_word(detail), number) for detail, number in store.count_details(conn, import_id)]
    return [(word, number) for word, number in found if word is not None]


def list_imports(conn: Connection, *, limit: int, before: tuple[datetime, UUID] | None = None) -> list[Import]:
    """Return imports, the newest first, those before (created_at, id)."""
    return [Import(**row) for row in store.list_imports(conn, limit=limit, before=before)]


def every_fault(database: Database, import_id: UUID) -> Iterator[list[ImportFault]]:
    """Yield the errors of an import by record, 5,000 at a time, each page in its own transaction."""
    last = -1
    while True:
        with database.read() as conn:
            rows = store.list_faults(conn, import_id, limit=_PAGE, after=last)
        if not rows:
            return
        yield [ImportFault(**row) for row in rows]
        last = rows[-1]["record"]


def error_lines(database: Database, import_id: UUID, form: Literal["csv", "jsonl"]) -> Iterator[bytes]:
    """Yield the errors of an import as a file, one line for each record."""
    if form == "csv":
        yield b"record,place,kind,detail\n"
    for faults in every_fault(database, import_id):
        if form == "csv":
            yield rows_csv([fault.model_dump() for fault in faults]).partition(b"\n")[2]
        else:
            yield "".join(fault.model_dump_json() + "\n" for fault in faults).encode()
