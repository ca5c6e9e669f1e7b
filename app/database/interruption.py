import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg
from sqlalchemy import Connection

from app.database.engine import driver_of

_AGAIN_SECONDS = 0.1
_ANSWER_SECONDS = 2.0


class InterruptedWorkError(Exception):
    """The work was interrupted; it ends where it is handled, and no user sees it."""


class Interruption:
    """Ends work in another thread: it looks here between its steps, and the query that it waits for is cancelled."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._lock = threading.Lock()  # held during a cancellation, so that it cannot meet the connection's next user
        self._connection: psycopg.Connection | None = None

    def interrupt(self) -> None:
        """End the work, from another thread; this does not wait for its end."""
        self._asked.set()
        threading.Thread(target=self._cancel, name="interruption", daemon=True).start()

    @property
    def asked(self) -> bool:
        """Whether `interrupt` was called."""
        return self._asked.is_set()

    def wait(self, seconds: float) -> None:
        """Wait so long.

        Raises InterruptedWorkError: `interrupt` was called, before or meanwhile.
        """
        if self._asked.wait(seconds):
            raise InterruptedWorkError

    @contextmanager
    def queries(self, conn: Connection) -> Iterator[None]:
        """Let `interrupt` cancel the queries of the `with` block.

        Raises InterruptedWorkError: `interrupt` was called, before or meanwhile.
        """
        with self._lock:
            self.wait(0)
            self._connection = driver_of(conn)
        try:
            yield
        except Exception as error:  # drivers and libraries name a cancelled query differently
            if self.asked:
                raise InterruptedWorkError from error
            raise
        finally:
            with self._lock:
                self._connection = None

    def _cancel(self) -> None:
        # Again and again: a cancellation that comes just before its query has no effect.
        while True:
            with self._lock:
                if self._connection is None:
                    return
                with suppress(psycopg.Error):  # a server that does not answer ends the query anyhow
                    self._connection.cancel_safe(timeout=_ANSWER_SECONDS)
            time.sleep(_AGAIN_SECONDS)  # the query has this long to begin, or to end
