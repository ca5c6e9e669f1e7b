"""Runs the imports whose files were uploaded; a process that dies leaves its import to the next."""

import contextlib
import threading
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any
from uuid import UUID

import structlog
from sqlalchemy import Connection, RowMapping

from app.database.anonymous_file import anonymous_temp_file
from app.database.engine import Database
from app.database.file_chunks import drop_chunks, drop_orphans, read_chunk
from app.database.lease_renewal import LeaseRenewal, holder_name
from app.database.leases import acquire_lease, drop_lease, release_lease
from app.errors import BadInputError, StableArenaError, UnavailableError
from app.imports import queries as store
from app.imports.formats import VoteReader
from app.imports.formats.schemas import KNOWN_COLUMNS
from app.imports.formats.schemas.choosing import ColumnsError
from app.imports.loading import CLAIMS, ImportLoad
from app.imports.service import OF_THE_RECORD, ImportOptions
from app.imports.survey import Survey, refuse_faulty, survey_file

log = structlog.get_logger()

MAX_CLAIMS = 3
"""How often an import is started without progress: reading some files kills the worker."""

_UPLOAD_TAKES_AT_MOST = timedelta(hours=24)


class ImportRunner:
    """Runs one import at a time; any number of runners may share a database, each import having a lease of its own.

    It owns its transactions. `max_expanded_bytes` bounds what a compressed file may become.
    """

    def __init__(self, database: Database, *, lease_seconds: float, max_expanded_bytes: int) -> None:
        self._database = database
        self._lease_seconds = lease_seconds
        self._max_expanded_bytes = max_expanded_bytes
        self._holder = holder_name()
        self._stopped = threading.Event()

    def run_next(self) -> UUID | None:
        """Run the oldest import that waits, or that its process left; return its id, None if there is none.

        Raises
        ------
        UnavailableError
            The database cannot be reached; whoever comes next takes the import on.
        """
        with self._database.read() as conn:
            waiting = store.runnable_imports(conn)
        for import_id in () if self.stopped else waiting:
            epoch = self._claim(import_id)
            if epoch is not None:
                self._run_claimed(import_id, epoch)
                return import_id
        return None

    def stop(self) -> None:
        """Let go, from another thread, of the import under way; it is taken on later. Runs no other."""
        self._stopped.set()

    @property
    def stopped(self) -> bool:
        """Whether it was told to stop."""
        return self._stopped.is_set()

    def drop_abandoned(self) -> None:
        """Forget uploads whose process died."""
        with self._database.begin() as conn:
            drop_orphans(conn, datetime.now(UTC) - _UPLOAD_TAKES_AT_MOST)

    def _claim(self, import_id: UUID) -> int | None:
        with self._database.begin() as conn:
            epoch = acquire_lease(conn, _lease(import_id), self._holder, self._lease_seconds)
            if epoch is not None and store.lock_import(conn, import_id)["state"] not in store.RUNNABLE:
                drop_lease(conn, _lease(import_id))  # somebody finished it since it was listed
                return None
            return epoch

    def _run_claimed(self, import_id: UUID, epoch: int) -> None:
        name = _lease(import_id)
        try:
            with LeaseRenewal(self._database, name, epoch, self._lease_seconds):
                ended = self._run(import_id)
        except UnavailableError:
            with contextlib.suppress(UnavailableError), self._database.begin() as conn:
                release_lease(conn, name, epoch)
                _forget_claims(conn, import_id)
            raise
        with self._database.begin() as conn:
            if ended:
                drop_lease(conn, name)
            else:
                release_lease(conn, name, epoch)
                _forget_claims(conn, import_id)

    def _run(self, import_id: UUID) -> bool:
        """Run the import; whatever goes wrong with it ends on its record. False where it was stopped on the way."""
        with self._database.begin() as conn:
            row = store.lock_import(conn, import_id)
            claims = row["counts"].get(CLAIMS, 0)
            store.begin_import(conn, import_id, counts={**row["counts"], CLAIMS: claims + 1})
        if claims >= MAX_CLAIMS:
            died = f"reading it ended with its worker {MAX_CLAIMS} times, as when memory runs out"
            self._fail(import_id, f"{died}: send it in smaller files")
            return True
        try:
            with anonymous_temp_file() as (file, path):
                self._fetch(import_id, file)
                return self._import(row, path)
        except UnavailableError:
            raise
        except BadInputError as error:
            told = error.discreet(KNOWN_COLUMNS) if isinstance(error, ColumnsError) else error.detail
            detail = told.replace(str(path), row["file_name"])
            self._fail(import_id, detail)
        except (StableArenaError, OSError) as error:
            self._fail(import_id, str(error))
        except Exception as error:  # a bug: it ends on the log and on the import's record, not the worker
            log.exception("import_broke", import_id=str(import_id))
            self._fail(import_id, f"unexpected {type(error).__name__}")
        return True

    def _import(self, row: RowMapping, path: Path) -> bool:
        given = row["options"]
        options = ImportOptions(**{name: given[name] for name in asdict(ImportOptions()) if name in given})
        limit, ending = self._max_expanded_bytes, given["suffix"]
        reader = VoteReader(path, options.reading(), max_expanded_bytes=limit, ending=ending)
        load = ImportLoad(self._database, row["id"], stopped=self._stopped.is_set)
        if row["rows_total"] is None:
            survey = survey_file(self._database, reader, stopped=self._stopped.is_set)
            if survey is None:
                return False
            if options.dry_run:
                self._end_dry_run(row["id"], survey)
                return True
            try:
                refuse_faulty(survey, row["file_name"], skip_invalid=options.skip_invalid)
            except BadInputError as error:
                self._fail(row["id"], error.detail, survey)
                return True
            load.begin(survey)
        return load.run(reader)

    def _fetch(self, import_id: UUID, file: IO[bytes]) -> None:
        number = 0
        while True:
            with self._database.read() as conn:
                piece = read_chunk(conn, import_id, number)
            if piece is None:
                file.flush()
                return
            file.write(piece)
            number += 1

    def _end_dry_run(self, import_id: UUID, survey: Survey) -> None:
        with self._database.begin() as conn:
            store.add_faults(conn, import_id, _records(survey))
            figures = _figures(survey)
            figures["counts"] |= dict.fromkeys(OF_THE_RECORD)
            store.end_import(conn, import_id, "done", **figures, rows_done=survey.rows)
            drop_chunks(conn, import_id)

    def _fail(self, import_id: UUID, detail: str, survey: Survey | None = None) -> None:
        log.warning("import_failed", import_id=str(import_id), detail=detail)
        with self._database.begin() as conn:
            if survey is not None:
                store.add_faults(conn, import_id, _records(survey))
            figures = _figures(survey) if survey else {}
            store.end_import(conn, import_id, "failed", detail=detail, **figures)
            _forget_claims(conn, import_id)
            drop_chunks(conn, import_id)


def _lease(import_id: UUID) -> str:
    return f"import:{import_id}"


def _forget_claims(conn: Connection, import_id: UUID) -> None:
    """Take back that an import was begun: whoever did has not died of it."""
    counts = dict(store.lock_import(conn, import_id)["counts"])
    if counts.pop(CLAIMS, None) is not None:
        store.change_import(conn, import_id, counts=counts)


def _figures(survey: Survey) -> dict[str, Any]:
    counts = {"rows": survey.rows, "rejected": survey.rejected, "skipped": survey.skipped}
    return {"rows_total": survey.rows, "counts": counts}


def _records(survey: Survey) -> list[dict[str, object]]:
    return [{"record": r, "place": f.pointer, "kind": "invalid", "detail": f.detail} for r, f in survey.faults]
