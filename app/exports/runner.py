"""Makes the files of exports. If a process dies, the next one makes its file from the start."""

import contextlib
import tempfile
from pathlib import Path
from uuid import UUID

import structlog
from sqlalchemy import Connection

from app.database.engine import Database
from app.database.file_chunks import CHUNK_BYTES, add_chunk, drop_chunks
from app.database.lease_renewal import LeaseRenewal, holder_name
from app.database.leases import acquire_lease, drop_lease, lock_lease, release_lease
from app.errors import StableArenaError, UnavailableError
from app.exports import queries as store
from app.exports.files import write_export
from app.exports.schemas import Export

log = structlog.get_logger()


class ExportRunner:
    """Makes one file at a time. Any number of runners may share a database: each export has a lease of its own.

    It owns its transactions. Finished files are deleted after `keep_days`.
    """

    def __init__(self, database: Database, *, lease_seconds: float, keep_days: int) -> None:
        self._database = database
        self._lease_seconds = lease_seconds
        self._keep_days = keep_days
        self._holder = holder_name()

    def run_next(self) -> UUID | None:
        """Make the oldest file that waits or that a dead process left; return its id, None if there is none.

        Raises
        ------
        UnavailableError
            The database cannot be reached; the next call makes the file.
        """
        with self._database.read() as conn:
            waiting = store.runnable_exports(conn)
        for export_id in waiting:
            name = f"export:{export_id}"
            with self._database.begin() as conn:
                epoch = acquire_lease(conn, name, self._holder, self._lease_seconds)
                claimed = epoch is not None and self._begin(export_id, conn)
                if epoch is not None and not claimed:
                    drop_lease(conn, name)
            if epoch is not None and claimed:
                self._run_claimed(export_id, name, epoch)
                return export_id
        return None

    def drop_old(self) -> None:
        """Delete the files that were finished more than `keep_days` ago."""
        with self._database.begin() as conn:
            for export_id in store.old_exports(conn, self._keep_days):
                drop_chunks(conn, export_id)
                store.drop_export(conn, export_id)

    def _begin(self, export_id: UUID, conn: Connection) -> bool:
        row = store.lock_export(conn, export_id)
        if row is None or row["state"] not in ("queued", "running"):
            return False  # another runner has finished it since
        store.change_export(conn, export_id, state="running")
        drop_chunks(conn, export_id)  # pieces that a dead process may have left
        return True

    def _run_claimed(self, export_id: UUID, name: str, epoch: int) -> None:
        try:
            with LeaseRenewal(self._database, name, epoch, self._lease_seconds):
                self._run(export_id, name, epoch)
        except UnavailableError:
            with contextlib.suppress(UnavailableError), self._database.begin() as conn:
                release_lease(conn, name, epoch)
            raise
        with self._database.begin() as conn:
            drop_lease(conn, name)

    def _run(self, export_id: UUID, name: str, epoch: int) -> None:
        with self._database.read() as conn:
            row = store.get_export(conn, export_id)
        assert row is not None  # noqa: S101  it was just claimed
        asked = Export(**row)
        try:
            with tempfile.TemporaryDirectory(prefix="stable-arena-export-") as folder:
                path = Path(folder) / f"export.{asked.format}"
                done = write_export(self._database, asked.what, asked.format, asked.filters, path)
                if not self._store(export_id, path, name, epoch):
                    return
                size = path.stat().st_size
        except UnavailableError:
            raise
        except (StableArenaError, OSError) as error:
            self._end(export_id, "failed", detail=str(error))
        except Exception as error:  # a bug goes to the log and the export's record; the worker goes on
            log.exception("export_broke", export_id=str(export_id))
            self._end(export_id, "failed", detail=f"unexpected {type(error).__name__}")
        else:
            options = {**asked.options, "vote_set": done.vote_set}
            self._end(export_id, "done", rows=done.rows, bytes=size, options=options)

    def _store(self, export_id: UUID, path: Path, name: str, epoch: int) -> bool:
        """Store the file in the database; False where another worker took over."""
        with path.open("rb") as file:
            pieces = iter(lambda: file.read(CHUNK_BYTES), b"")
            for number, piece in enumerate(pieces):
                with self._database.begin() as conn:
                    if not lock_lease(conn, name, epoch):
                        return False
                    add_chunk(conn, export_id, number, piece)
        return True

    def _end(self, export_id: UUID, state: str, **values: object) -> None:
        with self._database.begin() as conn:
            if not store.end_export(conn, export_id, state, **values):
                drop_chunks(conn, export_id)  # withdrawn: it may name an annotator who was erased meanwhile
