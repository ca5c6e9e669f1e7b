"""What a worker does beside refits: imports of uploaded files, and exports."""

from app.database.engine import Database
from app.exports.runner import ExportRunner
from app.imports.runner import ImportRunner


class FileJobs:
    """Runs the imports and makes the exports that wait, one after the other."""

    def __init__(self, database: Database, *, lease_seconds: float, max_expanded_bytes: int, keep_days: int) -> None:
        self._imports = ImportRunner(database, lease_seconds=lease_seconds, max_expanded_bytes=max_expanded_bytes)
        self._exports = ExportRunner(database, lease_seconds=lease_seconds, keep_days=keep_days)

    def run_waiting(self) -> None:
        """Run what waits until nothing does; what is left of long ago is forgotten first.

        Raises
        ------
        UnavailableError
            The database cannot be reached.
        """
        self._imports.drop_abandoned()
        self._exports.drop_old()
        while self._exports.run_next() or self._imports.run_next():
            if self._imports.stopped:
                return

    def stop(self) -> None:
        """Let go of the import under way, from another thread; it is taken on later."""
        self._imports.stop()
