"""Runs the imports whose files were uploaded; if the process dies, another goes on with the import."""

import contextlib
import threading
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import polars as pl
import structlog
from sqlalchemy import Connection, RowMapping

from app.database.anonymous_file import anonymous_temp_file
from app.database.engine import Database
from app.database.file_chunks import drop_chunks, drop_orphans, read_chunks
from app.database.leased_job import LeasedJob
from app.errors import BadInputError, StableArenaError, UnavailableError
from app.imports import queries as store
from app.imports.formats import VoteReader
from app.imports.formats.schemas import KNOWN_COLUMNS
from app.imports.formats.schemas.choosing import ColumnsError
from app.imports.loading import CLAIMS, ImportLoad
from app.imports.recognised import refuse_recorded
from app.imports.recognition import Recogniser, recognise_again
from app.imports.service import OF_THE_RECORD, ImportOptions
from app.imports.survey import Survey, refuse_faulty, survey_file
from app.imports.turns import import_turn

log = structlog.get_logger()

MAX_CLAIMS = 3
"""How often an import may begin and get no further: reading some files kills the process."""

_UPLOAD_TAKES_AT_MOST = timedelta(hours=24)


class ImportRunner:
    """Runs one import at a time. Any number of runners may share a database: they take turns.

    It owns its transactions. `max_expanded_bytes` bounds what a compressed file may become.
    """

    def __init__(self, database: Database, *, lease_seconds: float, max_expanded_bytes: int) -> None:
        self._database = database
        self._lease_seconds = lease_seconds
        self._max_expanded_bytes = max_expanded_bytes
        self._stopped = threading.Event()

    def run_next(self) -> UUID | None:
        """Run the oldest import that waits or that a process left unfinished; return its id, None if there is none.

        Raises
        ------
        UnavailableError
            The database cannot be reached. The next runner goes on with the import.
        """
        with self._database.read() as conn:
            waiting = store.runnable_imports(conn)
        if not waiting or self.stopped:
            return None
        with import_turn(self._database, self._lease_seconds) as mine:
            return self._run_first(waiting) if mine else None

    def _run_first(self, waiting: Sequence[UUID]) -> UUID | None:
        """Run the first of these imports that no other process is at."""
        for import_id in waiting:
            job = LeasedJob(self._database, f"import:{import_id}", self._lease_seconds, one_off=True)
            row = job.claim(partial(self._begin, import_id))
            if row is not None:
                with job:
                    self._run(row)
                return import_id
        return None

    def stop(self) -> None:
        """Interrupt the import under way, from another thread; a later runner goes on with it. Run no other."""
        self._stopped.set()

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped.is_set()

    def drop_abandoned(self) -> None:
        """Drop uploads whose process died."""
        with self._database.begin() as conn:
            drop_orphans(conn, datetime.now(UTC) - _UPLOAD_TAKES_AT_MOST)

    def _begin(self, import_id: UUID, conn: Connection) -> RowMapping | None:
        row = store.lock_import(conn, import_id)
        if row["state"] not in store.RUNNABLE:
            return None  # another process finished it since it was listed
        store.begin_import(conn, import_id, counts={**row["counts"], CLAIMS: row["counts"].get(CLAIMS, 0) + 1})
        return row

    def _run(self, row: RowMapping) -> None:
        """Run the import; whatever goes wrong with it ends on its record."""
        import_id = row["id"]
        if row["counts"].get(CLAIMS, 0) >= MAX_CLAIMS:
            died = f"reading it ended with its worker {MAX_CLAIMS} times, as when memory runs out"
            self._fail(import_id, f"{died}: send it in smaller files")
            return
        try:
            with anonymous_temp_file() as (file, path):
                file.writelines(read_chunks(self._database, import_id))
                file.flush()
                if not self._import(row, path):
                    self._forget_claims(import_id)
        except UnavailableError:
            with contextlib.suppress(UnavailableError):
                self._forget_claims(import_id)
            raise
        except BadInputError as error:
            detail = error.discreet(KNOWN_COLUMNS) if isinstance(error, ColumnsError) else error.detail
            self._fail(import_id, detail.replace(str(path), row["file_name"]))
        except (StableArenaError, OSError) as error:
            self._fail(import_id, str(error))
        except Exception as error:  # a bug: it ends on the log and on the import's record, not the worker
            log.exception("import_broke", import_id=str(import_id))
            self._fail(import_id, f"unexpected {type(error).__name__}")

    def _import(self, row: RowMapping, path: Path) -> bool:
        """Check the file and record its votes; False if the runner was stopped on the way."""
        given = row["options"]
        options = ImportOptions(**{name: given[name] for name in asdict(ImportOptions()) if name in given})
        limit, ending = self._max_expanded_bytes, given["suffix"]
        reader = VoteReader(path, options.reading(), max_expanded_bytes=limit, ending=ending)
        load = ImportLoad(self._database, row["id"], stopped=self._stopped.is_set)
        stopped = self._stopped.is_set
        if row["rows_total"] is None:
            recogniser = (
                None
                if options.dry_run
                else Recogniser(self._database, content=not options.allow_repeats, exact=options.new_rows_only)
            )
            survey = survey_file(self._database, reader, stopped=stopped, recogniser=recogniser)
            if survey is None:
                return False
            if recogniser is None:
                self._end_dry_run(row["id"], survey)
                return True
            try:
                refuse_faulty(survey, row["file_name"], skip_invalid=options.skip_invalid)
                found = recogniser.finish()
                if not options.new_rows_only:
                    refuse_recorded(self._database, row["file_name"], found)
            except BadInputError as error:
                self._fail(row["id"], error.detail, survey)
                return True
            load.begin(survey)
            recorded: pl.DataFrame | None = found.left_out(new_rows_only=options.new_rows_only)
        else:
            again = options.new_rows_only
            recorded = recognise_again(self._database, reader, row["id"], new_rows_only=again, stopped=stopped)
        return recorded is not None and load.run(reader, recorded)

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

    def _forget_claims(self, import_id: UUID) -> None:
        """Record that the process that began the import did not die of it."""
        with self._database.begin() as conn:
            _forget_claims(conn, import_id)


def _forget_claims(conn: Connection, import_id: UUID) -> None:
    counts = dict(store.lock_import(conn, import_id)["counts"])
    if counts.pop(CLAIMS, None) is not None:
        store.change_import(conn, import_id, counts=counts)


def _figures(survey: Survey) -> dict[str, Any]:
    counts = {"rows": survey.rows, "rejected": survey.rejected, "skipped": survey.skipped}
    return {"rows_total": survey.rows, "counts": counts, "notes": survey.notes}


def _records(survey: Survey) -> list[dict[str, object]]:
    return [{"record": r, "place": f.pointer, "kind": "invalid", "detail": f.detail} for r, f in survey.faults]
