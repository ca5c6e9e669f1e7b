"""Notices between the processes on one database, by PostgreSQL's LISTEN and NOTIFY: there is work of a kind.

A notice is sent with the commit of what causes the work. It may be lost with its connection, so those who wait for one
look at the database now and then too. Votes send none: a commit with a notice waits for every other one.
"""

import selectors
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator
from typing import Literal

import structlog
from sqlalchemy import Connection, func, select

from app.database.engine import Database
from app.database.errors import DatabaseReadOnlyError
from app.errors import UnavailableError

log = structlog.get_logger()

Subject = Literal["refits", "snapshots", "webhooks", "files", "answers", "everything"]
CHANNEL = "stable_arena"

TICK_SECONDS = 30.0
"""Between two looks for what a lost notice was about."""
DEAF_SECONDS = 1.0
"""Between two looks at everything where no notices can come."""
_MINUTE = 60.0
_FIRST_PAUSE_SECONDS = 0.1  # between two attempts to connect again; then twice as long each time
_LONGEST_PAUSE_SECONDS = 2.0


def notify(conn: Connection, subject: Subject) -> None:
    """Say, with this transaction's commit, that there is something new; twice in a transaction is once."""
    conn.execute(select(func.pg_notify(CHANNEL, subject)))


def notices_arrive(database: Database, *, seconds: float = 2.0) -> bool:
    """Whether a process on this database hears what another one sends. A pooler may keep it."""
    with database.listen(CHANNEL) as connection:
        with database.begin() as conn:
            notify(conn, "everything")
        return any(connection.notifies(timeout=seconds, stop_after=1))


class Notices:
    """Calls functions when there is a notice of their subject, in a thread that has the process's one such connection.

    Once it is connected, at first and whenever the connection was lost, all functions are called, as for a notice of
    everything: what came before was not heard. Behind a pooler that passes no notices on, and on a standby, which takes
    no listeners, they are called every second. The functions must return at once.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._heard: list[tuple[Subject, Callable[[], object]]] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self._end: socket.socket | None = None

    def call(self, subject: Subject, heard: Callable[[], object]) -> None:
        """Call this function at every notice of the subject from now on."""
        self._heard.append((subject, heard))

    def start(self) -> None:
        """Begin to listen, if that has not begun."""
        with self._lock:
            if self._thread is None and not self._stopped.is_set():
                self._end, ended = socket.socketpair()
                self._thread = threading.Thread(target=self._run, args=[ended], name="notices", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Call no function any more."""
        with self._lock:
            self._stopped.set()
        if self._thread is not None and self._end is not None:
            self._end.close()
            self._thread.join()

    def _run(self, ended: socket.socket) -> None:
        with ended:
            pause, lost = _FIRST_PAUSE_SECONDS, False
            while not self._stopped.is_set():
                if self._database.transaction_pooler:
                    self._go_without()
                    continue
                try:
                    for subjects in self._hear(ended):
                        pause, lost = _FIRST_PAUSE_SECONDS, False
                        self._tell(subjects)
                except DatabaseReadOnlyError:  # a standby, which may become the primary
                    self._go_without()
                except UnavailableError as error:
                    if not lost:
                        log.warning("notices_lost", detail=error.detail)
                    lost = True
                self._stopped.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _go_without(self) -> None:
        """Call all functions every second, for a minute."""
        log.debug("no_notices", detail="a standby, or a pooler in transaction mode: looks for news every second")
        until = time.monotonic() + _MINUTE
        while time.monotonic() < until and not self._stopped.wait(DEAF_SECONDS):
            self._tell(["everything"])

    def _hear(self, ended: socket.socket) -> Iterator[Collection[str]]:
        """Yield the subjects of the notices that come, until the end, over one connection."""
        with self._database.listen(CHANNEL) as connection, selectors.DefaultSelector() as selector:
            yield ["everything"]
            selector.register(connection, selectors.EVENT_READ)
            selector.register(ended, selectors.EVENT_READ)
            # Not `connection.notifies()` alone: it wakes up ten times a second, and cannot be stopped.
            while selector.select() and not self._stopped.is_set():
                yield {notice.payload for notice in connection.notifies(timeout=0)}

    def _tell(self, subjects: Collection[str]) -> None:
        for subject, heard in self._heard:
            if subject in subjects or "everything" in subjects:
                heard()
