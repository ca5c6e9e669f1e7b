"""Reads the file of an import that has begun, and records its votes or why it failed."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import structlog

from app.database.file_chunks import read_chunks
from app.errors import BadInputError, StableArenaError, UnavailableError
from app.imports.formats import VoteReader
from app.imports.formats.schemas import KNOWN_COLUMNS, ColumnsError
from app.imports.held import HeldImport
from app.imports.loading import ImportLoad
from app.imports.recognition import recognise_again
from app.imports.service import ImportOptions
from app.imports.survey import survey_file

log = structlog.get_logger()

_OPEN_FILES = Path("/proc/self/fd")


def run_import(held: HeldImport, row: dict[str, Any], *, stopped: Callable[[], bool] = lambda: False) -> None:
    """Run an import; whatever goes wrong with it ends on its record. It owns its transactions.

    `row`: of the import.
    `stopped`: asked for each batch; where it says so, the import goes on later.
    Raises UnavailableError: the database cannot be reached.
    Raises MemoryError.
    """
    try:
        with _anonymous_file() as (file, path):
            file.writelines(read_chunks(held.database, held.id))
            file.flush()
            if not _import(held, row, path, stopped):
                held.forget_claims()
    except UnavailableError:
        with contextlib.suppress(UnavailableError):
            held.forget_claims()
        raise
    except MemoryError:
        raise
    except BadInputError as error:
        detail = error.discreet(KNOWN_COLUMNS) if isinstance(error, ColumnsError) else error.detail
        held.fail(detail.replace(str(path), row["file_name"]))
    except (StableArenaError, OSError) as error:
        held.fail(str(error))
    except Exception as error:  # a bug: it ends on the log and on the import's record, not the worker
        log.exception("import_broke", import_id=str(held.id))
        held.fail(f"unexpected {type(error).__name__}")


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


def _import(held: HeldImport, row: dict[str, Any], path: Path, stopped: Callable[[], bool]) -> bool:
    """Check the file and record its votes; False if the runner was stopped on the way."""
    database, options = held.database, ImportOptions.stored(row["options"])
    reader = VoteReader(path, options, ending=row["options"]["suffix"])
    load = ImportLoad(database, held.id, stopped=stopped)
    if row["rows_total"] is not None:
        again = options.new_rows_only
        recorded = recognise_again(database, reader, held.id, new_rows_only=again, stopped=stopped)
        return recorded is not None and load.run(reader, recorded)
    survey = survey_file(database, reader, options, stopped=stopped)
    if survey is None:
        return False
    if options.dry_run:
        held.end_dry_run(survey)
        return True
    try:
        recorded = survey.left_out(database, row["file_name"], options)
    except BadInputError as error:
        held.fail(error.detail, survey)
        return True
    load.begin(survey)
    return load.run(reader, recorded)
