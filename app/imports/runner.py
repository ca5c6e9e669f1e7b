"""Runs the imports whose files were uploaded; if the process dies, another goes on with the import."""

import contextlib
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy import Connection, RowMapping

from app.database.engine import Database
from app.database.file_chunks import drop_orphans
from app.database.leases import LeasedJob
from app.errors import UnavailableError
from app.imports import queries as store
from app.imports.held import CLAIMS, HeldImport
from app.imports.loading import import_turn
from app.imports.process import ImportProcess
from app.imports.reading import run_import
from app.refits.fit.work_process import ProcessLostError

log = structlog.get_logger()

MAX_CLAIMS = 3
"""How often an import may begin and get no further: reading some files kills the process."""

_UPLOAD_TAKES_AT_MOST = timedelta(hours=24)


class ImportRunner:
    """Runs one import at a time. Any number of runners may share a database: they take turns.

    It owns its transactions.

    Parameters
    ----------
    process : in which files are read, so that a file which needs too much memory ends it alone; None for this process

    Attributes
    ----------
    unfinished : whether the last `run_next` found an import, even if another process is, or was, at it
    """

    unfinished = False

    def __init__(
        self,
        database: Database,
        *,
        lease_seconds: float,
        process: ImportProcess | None = None,
    ) -> None:
        self._database = database
        self._lease_seconds = lease_seconds
        self._process = process
        self._stopped = threading.Event()

    def run_next(self) -> UUID | None:
        """Run the oldest import that waits or that a process left unfinished; return its id, None if there is none.

        Raises UnavailableError: the database cannot be reached. The next runner goes on with the import.
        """
        with self._database.read() as conn:
            waiting = store.runnable_imports(conn)
        self.unfinished = bool(waiting)
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
                    self._run(HeldImport(self._database, import_id, job.lock), dict(row))
                return import_id
        return None

    def stop(self) -> None:
        """Interrupt the import under way, from another thread; a later runner goes on with it. Run no other."""
        self._stopped.set()
        if self._process is not None:
            self._process.stop()

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

    def _run(self, held: HeldImport, row: dict[str, Any]) -> None:
        """Run the import; whatever goes wrong with it ends on its record."""
        if row["counts"].get(CLAIMS, 0) >= MAX_CLAIMS:
            died = f"reading it ended with its worker {MAX_CLAIMS} times, as when memory runs out"
            held.fail(f"{died}: send it in smaller files")
            return
        try:
            if self._process is None:
                run_import(held, row)
                return
            try:
                self._process.call(partial(run_import, held, row))
            finally:
                self._process.discard()  # a process for each import: what one leaves in memory is no burden to the next
        except MemoryError:
            most = "" if self._process is None else f" than {self._process.memory_bytes:,} bytes"
            held.fail(f"reading it needs more memory{most}: send it in smaller files")
        except ProcessLostError as error:
            if self.stopped:
                with contextlib.suppress(UnavailableError):
                    held.forget_claims()
            else:
                log.warning("import_lost", import_id=str(held.id), detail=error.detail)
