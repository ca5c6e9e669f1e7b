"""Makes the files that were asked for; if the process dies, another begins the export again."""

import tempfile
from functools import partial
from pathlib import Path
from uuid import UUID

import structlog
from sqlalchemy import Connection

from app.database.engine import Database
from app.database.file_chunks import CHUNK_BYTES, add_chunk, drop_chunks
from app.database.interruption import InterruptedWorkError, Interruption
from app.database.leases import LeasedJob
from app.errors import StableArenaError, UnavailableError
from app.exports import queries as store
from app.exports.files import write_export
from app.exports.schemas import Export

log = structlog.get_logger()


class ExportRunner:
    """Makes one file at a time. Any number of runners may share a database: each export has a lease of its own.

    It owns its transactions. Finished files are dropped after `keep_days`.

    Attributes
    ----------
    unfinished : whether the last `run_next` found an export, even if another process is, or was, at it
    """

    unfinished = False

    def __init__(self, database: Database, *, lease_seconds: float, keep_days: int) -> None:
        self._database = database
        self._lease_seconds = lease_seconds
        self._keep_days = keep_days
        self._interruption = Interruption()

    def run_next(self) -> UUID | None:
        """Make the oldest file that waits or that a process left unfinished; return its id, None if there is none.

        Raises UnavailableError: the database cannot be reached. The next runner makes the file.
        """
        with self._database.read() as conn:
            waiting = store.runnable_exports(conn)
        self.unfinished = bool(waiting)
        for export_id in () if self._interruption.asked else waiting:
            job = LeasedJob(self._database, f"export:{export_id}", self._lease_seconds, one_off=True)
            export = job.claim(partial(self._begin, export_id))
            if export is not None:
                with job:
                    self._make(export, job)
                return export_id
        return None

    def stop(self) -> None:
        """Interrupt the export under way, from another thread; a later runner begins it again. Make no other."""
        self._interruption.interrupt()

    def drop_old(self) -> None:
        """Drop the files that were finished more than `keep_days` ago."""
        with self._database.begin() as conn:
            for export_id in store.old_exports(conn, self._keep_days):
                drop_chunks(conn, export_id)
                store.drop_export(conn, export_id)

    def _begin(self, export_id: UUID, conn: Connection) -> Export | None:
        row = store.get_export(conn, export_id, lock=True)
        if row is None or row["state"] not in ("queued", "running"):
            return None  # another process finished it since it was listed
        store.begin_export(conn, export_id)
        drop_chunks(conn, export_id)  # of a process that died
        return Export(**row)

    def _make(self, export: Export, job: LeasedJob) -> None:
        try:
            with tempfile.TemporaryDirectory(prefix="stable-arena-export-") as folder:
                path = Path(folder) / f"export.{export.format}"
                done = write_export(
                    self._database, export.what, export.format, export.filters, path, self._interruption
                )
                if not self._store(export.id, path, job):
                    return
                size = path.stat().st_size
        except InterruptedWorkError:
            self._end(export.id, job, "queued")  # for the next runner
        except UnavailableError:
            raise
        except (StableArenaError, OSError) as error:
            self._end(export.id, job, "failed", detail=str(error))
        except Exception as error:  # a bug: it ends on the log and on the export's record, not the worker
            log.exception("export_broke", export_id=str(export.id))
            self._end(export.id, job, "failed", detail=f"unexpected {type(error).__name__}")
        else:
            options = {**export.options, "vote_set": done.vote_set}
            self._end(export.id, job, "done", rows=done.rows, bytes=size, options=options)

    def _store(self, export_id: UUID, path: Path, job: LeasedJob) -> bool:
        """Store the file in the database, where every process can read it; False if another worker took over."""
        with path.open("rb") as file:
            pieces = iter(lambda: file.read(CHUNK_BYTES), b"")
            for number, piece in enumerate(pieces):
                self._interruption.wait(0)
                with self._database.begin() as conn:
                    if not job.lock(conn):
                        return False
                    add_chunk(conn, export_id, number, piece)
        return True

    def _end(self, export_id: UUID, job: LeasedJob, state: str, **values: object) -> None:
        """Record how an export ended, unless another worker took over, whose file it is then."""
        with self._database.begin() as conn:
            if job.lock(conn):
                ended = store.end_export(conn, export_id, state, **values)
                if not ended or state == "queued":  # withdrawn: it may name an annotator who was erased meanwhile
                    drop_chunks(conn, export_id)
