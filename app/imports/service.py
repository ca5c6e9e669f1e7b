"""Imports as they stand on record: what was asked for, how far it is, and what was wrong with the file."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, field_validator
from sqlalchemy import Connection

from app.database.engine import Database
from app.errors import NotFoundError
from app.imports import queries as store
from app.imports.formats import ReadOptions

State = Literal["queued", "running", "done", "failed"]

MAX_FAULTS_STORED = 100_000
_SAMPLE = 10
_PAGE = 5_000


@dataclass(frozen=True)
class ImportOptions:
    """How a file is to be imported.

    Attributes
    ----------
    schema, annotator_column, pool_annotators : how it is understood; see `app.imports.formats.ReadOptions`.
    skip_invalid : leave out the records that are no votes instead of refusing the file.
    again : import it even if the same file was imported before.
    dry_run : count and report, record nothing.
    """

    schema: str | None = None
    annotator_column: str | None = None
    pool_annotators: bool = False
    skip_invalid: bool = False
    again: bool = False
    dry_run: bool = False

    def reading(self) -> ReadOptions:
        """Return what the reader has to know."""
        return ReadOptions(self.schema, self.annotator_column, self.pool_annotators)


class ImportCounts(BaseModel):
    """What became of the records of a file so far; null what a dry run, which only reads the file, does not know."""

    model_config = ConfigDict(frozen=True)

    rows: int = Field(0, description="Records in the file; 0 before they are counted.")
    created: int = Field(0, description="Votes recorded.")
    replaced: int = Field(0, description="Of these, votes that took the place of an earlier one, by the policy.")
    duplicates: int | None = Field(0, description="Votes on record already: same battle, annotator and verdict.")
    retracted: int | None = Field(0, description="Of these, votes whose one on record is retracted, and stays so.")
    conflicts: int | None = Field(0, description="Votes that contradict the record; it stays as it was.")
    rejected: int = Field(0, description="Records that are no valid votes.")
    skipped: int = Field(0, description="Records that say that nobody voted.")


OF_THE_RECORD = ("duplicates", "retracted", "conflicts")
"""Counts that only the record can tell, which a dry run does not look at."""


class ImportFault(BaseModel):
    """What is wrong with one record."""

    model_config = ConfigDict(frozen=True)

    record: int = Field(description="Number of the record in the file, from 0.")
    place: str = Field(description="Where a user would look for it: `line 7, winner`.")
    kind: Literal["invalid", "conflict"]
    detail: str

    @field_validator("place", mode="before")
    @classmethod
    def _name_the_record(cls, value: str, info: Any) -> str:
        # Lines are looked up once, at the end of the import.
        return value or f"record {info.data['record']}"


class Import(BaseModel):
    """A file on its way into the record."""

    model_config = ConfigDict(frozen=True)

    id: UUID
    state: State
    file_name: str
    sha256: str = Field(description="Of the file, in hexadecimal; a file is imported once.")
    bytes: int | None = Field(description="Size of the uploaded file.")
    options: dict[str, Any]
    rows_done: int = Field(description="Records dealt with, of `rows_total`.")
    rows_total: int | None = Field(description="Records in the file; null before they are counted.")
    counts: ImportCounts
    detail: str | None = Field(description="Why it failed.")
    requested_by: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @field_validator("sha256", mode="before")
    @classmethod
    def _in_hexadecimal(cls, value: object) -> object:
        return value.hex() if isinstance(value, bytes | memoryview) else value


class ImportDetails(Import):
    """An import and the first of its faults."""

    n_faults: int = Field(description="Faults on record: at most 100,000, all of them under `…/errors`.")
    faults: list[ImportFault] = Field(description="The first of them.")


def find_import(conn: Connection, import_id: UUID) -> ImportDetails:
    """Return an import with its first faults.

    Raises
    ------
    NotFoundError
    """
    row = store.get_import(conn, import_id)
    if row is None:
        raise NotFoundError(f"there is no import {import_id}")
    faults = [ImportFault(**fault) for fault in store.list_faults(conn, import_id, limit=_SAMPLE)]
    return ImportDetails(**row, faults=faults, n_faults=store.count_faults(conn, import_id))


def list_imports(conn: Connection, *, limit: int, before: tuple[datetime, UUID] | None = None) -> list[Import]:
    """Return imports, the newest first, those before (created_at, id)."""
    return [Import(**row) for row in store.list_imports(conn, limit=limit, before=before)]


def every_fault(database: Database, import_id: UUID) -> Iterator[list[ImportFault]]:
    """Yield the faults of an import by record, some thousands at a time, each lot in a transaction of its own."""
    last = -1
    while True:
        with database.read() as conn:
            rows = store.list_faults(conn, import_id, limit=_PAGE, after=last)
        if not rows:
            return
        yield [ImportFault(**row) for row in rows]
        last = rows[-1]["record"]
