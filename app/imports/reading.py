"""Reads the file of an import that has begun, and records its votes or why it failed."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from uuid import UUID

import structlog
from sqlalchemy import Connection

from app.database.engine import Database
from app.database.file_chunks import drop_chunks, read_chunks
from app.errors import BadInputError, StableArenaError, UnavailableError
from app.imports import queries as store
from app.imports.formats import VoteReader
from app.imports.formats.schemas import KNOWN_COLUMNS, ColumnsError
from app.imports.loading import CLAIMS, ImportLoad
from app.imports.recognition import recognise_again
from app.imports.service import OF_THE_RECORD, ImportOptions
from app.imports.survey import Survey, survey_file

log = structlog.get_logger()

_OPEN_FILES = Path("/proc/self/fd")


def run_import(
    database: Database,
    row: Mapping[str, Any],
    *,
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Run an import; whatever goes wrong with it ends on its record. It owns its transactions.

    `row`: of the import.
    `stopped`: asked for each batch; where it says so, the import goes on later.
    Raises UnavailableError: the database cannot be reached.
    Raises MemoryError.
    """
    import_id = row["id"]
    try:
        with _anonymous_file() as (file, path):
            file.writelines(read_chunks(database, import_id))
            file.flush()
            if not _import(database, row, path, stopped):
                forget_claims(database, import_id)
    except UnavailableError:
        with contextlib.suppress(UnavailableError):
            forget_claims(database, import_id)
        raise
    except MemoryError:
        raise
    except BadInputError as error:
        detail = error.discreet(KNOWN_COLUMNS) if isinstance(error, ColumnsError) else error.detail
        fail_import(database, import_id, detail.replace(str(path), row["file_name"]))
    except (StableArenaError, OSError) as error:
        fail_import(database, import_id, str(error))
    except Exception as error:  # a bug: it ends on the log and on the import's record, not the worker
        log.exception("import_broke", import_id=str(import_id))
        fail_import(database, import_id, f"unexpected {type(error).__name__}")


@contextmanager
def _anonymous_file() -> Iterator[tuple[IO[bytes], Path]]:
    """Make a temporary file and yield it with a path that only this process can use.

    The file has no name in any folder, so the kernel removes it at the end of the process, even after a kill. Where
    the kernel has no paths of open files (macOS), the file has a name until the block ends.
    """
    if _OPEN_FILES.is_dir():
        with tempfile.TemporaryFile() as file:
            yield file, _OPEN_FILES / str(file.fileno())
    else:
        with tempfile.NamedTemporaryFile(prefix="stable-arena-") as file:
            yield file, Path(file.name)


def _end_dry_run(database: Database, import_id: UUID, survey: Survey) -> None:
    with database.begin() as conn:
        store.add_faults(conn, import_id, survey.fault_rows)
        figures = _figures(survey)
        figures["counts"] |= dict.fromkeys(OF_THE_RECORD)
        store.end_import(conn, import_id, "done", **figures, rows_done=survey.rows)
        drop_chunks(conn, import_id)


def fail_import(database: Database, import_id: UUID, detail: str, survey: Survey | None = None) -> None:
    """Record that an import failed, with what was read of its file."""
    # The reason of a file that was read may quote it, and so name people.
    log.warning("import_failed", import_id=str(import_id), detail=detail if survey is None else "its votes are refused")
    with database.begin() as conn:
        if survey is not None:
            store.add_faults(conn, import_id, survey.fault_rows)
        figures = _figures(survey) if survey else {}
        store.end_import(conn, import_id, "failed", detail=detail, **figures)
        _forget_claims(conn, import_id)
        drop_chunks(conn, import_id)


def forget_claims(database: Database, import_id: UUID) -> None:
    """Record that the process that began the import did not die of it."""
    with database.begin() as conn:
        _forget_claims(conn, import_id)


def _import(database: Database, row: Mapping[str, Any], path: Path, stopped: Callable[[], bool]) -> bool:
    """Check the file and record its votes; False if the runner was stopped on the way."""
    options = ImportOptions.stored(row["options"])
    reader = VoteReader(path, options, ending=row["options"]["suffix"])
    load = ImportLoad(database, row["id"], stopped=stopped)
    if row["rows_total"] is not None:
        again = options.new_rows_only
        recorded = recognise_again(database, reader, row["id"], new_rows_only=again, stopped=stopped)
        return recorded is not None and load.run(reader, recorded)
    survey = survey_file(database, reader, options, stopped=stopped)
    if survey is None:
        return False
    if options.dry_run:
        _end_dry_run(database, row["id"], survey)
        return True
    try:
        recorded = survey.left_out(database, row["file_name"], options)
    except BadInputError as error:
        fail_import(database, row["id"], error.detail, survey)
        return True
    load.begin(survey)
    return load.run(reader, recorded)


def _forget_claims(conn: Connection, import_id: UUID) -> None:
    counts = dict(store.lock_import(conn, import_id)["counts"])
    if counts.pop(CLAIMS, None) is not None:
        store.change_import(conn, import_id, counts=counts)


def _figures(survey: Survey) -> dict[str, Any]:
    return {"rows_total": survey.rows, "counts": survey.counts, "notes": survey.notes}
