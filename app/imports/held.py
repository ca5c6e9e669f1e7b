"""What a worker records of the import that it has begun, only while it holds the import's lease and the import runs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy import Connection, RowMapping

from app.database.engine import Database
from app.database.file_chunks import drop_chunks
from app.imports import queries as store
from app.imports.service import OF_THE_RECORD
from app.imports.survey import Survey

log = structlog.get_logger()

CLAIMS = "claims"
"""A hidden entry of an import's counts: how often it was started since it last made progress."""


@dataclass(frozen=True)
class HeldImport:
    """An import that this worker runs. It owns its transactions.

    A worker that froze may wake when another has taken the import on, or has finished it and deleted its file. Nothing
    of what it found is recorded then.

    Attributes
    ----------
    lock : whether the import's lease is still held; see `LeasedJob.lock`
    """

    database: Database
    id: UUID
    lock: Callable[[Connection], bool]

    def fail(self, detail: str, survey: Survey | None = None) -> None:
        """Record that it failed, with what was read of its file."""
        # The reason of a file that was read may quote it, and so name people.
        said = detail if survey is None else "its votes are refused"
        log.warning("import_failed", import_id=str(self.id), detail=said)
        with self.database.begin() as conn:
            if (row := self._lock_running(conn)) is not None:
                counts = survey.counts if survey else _without_claims(row)
                self._end(conn, survey, state="failed", detail=detail, counts=counts)

    def end_dry_run(self, survey: Survey) -> None:
        """Record what was read of its file, of which nothing is stored."""
        with self.database.begin() as conn:
            if self._lock_running(conn) is not None:
                counts = survey.counts | dict.fromkeys(OF_THE_RECORD)
                self._end(conn, survey, state="done", rows_done=survey.rows_read, counts=counts)

    def forget_claims(self) -> None:
        """Record that the process that began it did not die of it."""
        with self.database.begin() as conn:
            if (row := self._lock_running(conn)) is not None and CLAIMS in row["counts"]:
                store.change_import(conn, self.id, counts=_without_claims(row))

    def _lock_running(self, conn: Connection) -> RowMapping | None:
        """Return the import, locked; None if it has ended, or if it may be another worker's by now."""
        row = store.lock_import(conn, self.id) if self.lock(conn) else None
        if row is not None and row["state"] == "running":
            return row
        log.warning("import_superseded", import_id=str(self.id))
        return None

    def _end(self, conn: Connection, survey: Survey | None, *, state: str, **values: Any) -> None:
        if survey is not None:
            store.add_faults(conn, self.id, survey.fault_rows)
            values |= {"rows_total": survey.rows_read, "notes": survey.notes}
        store.end_import(conn, self.id, state, **values)
        drop_chunks(conn, self.id)


def _without_claims(row: RowMapping) -> dict[str, Any]:
    return {name: count for name, count in row["counts"].items() if name != CLAIMS}
