"""Reads the file of an import that has begun, and records its votes or why it failed."""

import contextlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import structlog

from app.database.file_chunks import read_chunks
from app.errors import BadInputError, StableArenaError, UnavailableError
from app.imports.formats.reading import VoteReader
from app.imports.formats.schemas import KNOWN_COLUMNS, ColumnsError
from app.imports.held import HeldImport
from app.imports.loading import ImportLoad
from app.imports.service import ImportOptions
from app.imports.survey import survey_file

log = structlog.get_logger()

_OPEN_FILES = Path("/proc/self/fd")


def run_import(held: HeldImport, row: dict[str, Any]) -> None:
    """Run an import; whatever goes wrong with it ends on its record. It owns its transactions.

    `row`: of the import.
    Raises UnavailableError: the database cannot be reached.
    Raises MemoryError.
    """
    try:
        with _anonymous_file() as (file, path):
            file.writelines(read_chunks(held.database, held.id))
            file.flush()
            _import(held, row, path)
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


def _import(held: HeldImport, row: dict[str, Any], path: Path) -> None:
    """Check the file and record its votes."""
    database, options = held.database, ImportOptions.stored(row["options"])
    reader = VoteReader(path, options, ending=row["options"]["suffix"])
    checked = None
    if row["rows_total"] is None:
        survey = survey_file(database, reader, options)
        if options.dry_run:
            held.end_dry_run(survey)
            return
        try:
            checked = survey, survey.left_out(database, row["file_name"], options)
        except BadInputError as error:
            held.fail(error.detail, survey)
            return
    ImportLoad(database, held.id).run(reader, options, checked)
