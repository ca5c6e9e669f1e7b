"""Imports a file of this machine; an interrupted import continues when the same file is imported again."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from uuid import UUID

import polars as pl

from app.database.engine import Database
from app.database.ids import new_id
from app.errors import StableArenaError
from app.imports import queries as store
from app.imports.formats.reading import VoteReader, file_sha256
from app.imports.loading import ImportLoad, import_turn
from app.imports.schemas import ImportCounts, ImportFault
from app.imports.service import OF_THE_RECORD, ImportOptions, open_import
from app.imports.survey import Survey, survey_file

MAX_CONFLICTS_LISTED = 1_000
_TURN_SECONDS = 10.0  # how long the next import waits after this one was killed


class ImportBrokenError(StableArenaError):
    """Another process that imported the same file failed."""

    code = "import-broken"
    title = "The import failed"


@dataclass(frozen=True)
class ImportReceipt:
    """The result of an import.

    Attributes
    ----------
    import_id : of this import, or of the earlier one for a file that was imported before; None for a dry run
    counts : the records of each kind, in this import or the earlier one
    already_imported : whether nothing was done because the same file had been imported
    resumed : whether this continued an interrupted import
    faults : the first invalid records, of a dry run
    conflicts : the first 1,000 conflicts, with their places in the file and the votes that they contradict
    notes : as of a `Survey`
    """

    import_id: UUID | None
    counts: ImportCounts
    already_imported: bool = False
    resumed: bool = False
    faults: tuple[ImportFault, ...] = ()
    conflicts: tuple[ImportFault, ...] = ()
    notes: tuple[str, ...] = ()


def import_file(
    database: Database,
    path: Path,
    options: ImportOptions,
    *,
    requested_by: str,
    stage: Callable[[str], None] = lambda _: None,
    progress: Callable[[float], None] | None = None,
) -> ImportReceipt:
    """Store the votes of a file in chunks that each commit; owns its transactions.

    The file is read twice: nothing is written before every record was checked. Meanwhile other imports wait. A file
    with the same SHA-256 as an earlier one is not imported again unless `options.again`; an interrupted import of it
    continues with its own options. A vote of an annotator on a battle that has a stored vote is a duplicate or, with
    another outcome, a conflict; neither changes the stored vote, unless the policy lets later votes replace earlier
    ones.

    `stage`: called with the name of each stage when it begins.
    `progress`: called with the share of the stage that is done, 0 to 1.
    Raises BadInputError: it is no vote file, it has invalid records and `skip_invalid` is off, no record is a vote, or
    most of its votes are on record and neither `new_rows_only` nor `allow_repeats` is on.
    """
    stage("Reading")
    reader = VoteReader(path, options)
    if options.dry_run:
        return _tried(survey_file(database, reader, options, progress=progress))
    sha256 = file_sha256(path)
    with import_turn(database, _TURN_SECONDS, cache(lambda: stage("Waiting for another import"))):
        return _import(database, reader, sha256, options, requested_by=requested_by, stage=stage, progress=progress)


def _import(
    database: Database,
    reader: VoteReader,
    sha256: bytes,
    options: ImportOptions,
    *,
    requested_by: str,
    stage: Callable[[str], None],
    progress: Callable[[float], None] | None,
) -> ImportReceipt:
    with database.read() as conn:
        earlier = store.find_import(conn, sha256)
    resumed = earlier is not None and earlier["state"] != "done"
    checked = None
    if earlier is None or (options.again and not resumed):  # before anything is stored
        options = options.known_again() if earlier else options
        checked = _check(database, reader, options, progress)
    with database.begin() as conn:
        values = {"file_name": reader.path.name, "state": "running", "requested_by": requested_by}
        found = open_import(conn, new_id(), sha256, options, **values)
        if found["state"] != "done":
            store.begin_import(conn, found["id"], detail=None)
    if found["state"] == "done":
        return ImportReceipt(found["id"], ImportCounts(**found["counts"]), already_imported=True)
    began = ImportOptions.stored(found["options"])
    if began != options:
        reader = VoteReader(reader.path, began)
    if checked is None and found["rows_total"] is None:
        checked = _check(database, reader, began, progress)
    stage("Recording")
    ImportLoad(database, found["id"], progress=progress).run(reader, began, checked)
    return _receipt(database, found["id"], resumed=resumed)


def _check(
    database: Database, reader: VoteReader, options: ImportOptions, progress: Callable[[float], None] | None
) -> tuple[Survey, pl.DataFrame]:
    survey = survey_file(database, reader, options, progress=progress)
    return survey, survey.left_out(database, reader.path.name, options)


def _receipt(database: Database, import_id: UUID, *, resumed: bool) -> ImportReceipt:
    with database.read() as conn:
        row = store.get_import(conn, import_id)
        rows = store.list_faults(conn, import_id, limit=MAX_CONFLICTS_LISTED, kind="conflict")
    assert row is not None  # noqa: S101  an import that ran is never dropped
    if row["state"] != "done":
        raise ImportBrokenError(f"another process failed to import the same file: {row['detail']}")
    conflicts = tuple(ImportFault(**fault) for fault in rows)
    counts, notes = ImportCounts(**row["counts"]), tuple(row["notes"])
    return ImportReceipt(import_id, counts, resumed=resumed, conflicts=conflicts, notes=notes)


def _tried(survey: Survey) -> ImportReceipt:
    unknown = dict.fromkeys(OF_THE_RECORD)
    counts = ImportCounts(rows=survey.rows_read, rejected=survey.rejected, skipped=survey.skipped, **unknown)
    faults = tuple(ImportFault(**fault) for fault in survey.fault_rows[:MAX_CONFLICTS_LISTED])
    return ImportReceipt(None, counts, faults=faults, notes=tuple(survey.notes))
