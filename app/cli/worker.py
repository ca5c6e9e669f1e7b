import os
import signal
import threading
from multiprocessing.connection import Connection

from app.assembly import build_worker
from app.cli.children import become_child
from app.cli.logs import log_to_stderr
from app.cli.session import open_session
from app.store.naming import require_pseudonym_key

_NICENESS = 10
_LOOK_UP_SECONDS = 1.0


def worker() -> None:
    """Run refits, imports and exports until told to stop (Ctrl-C or SIGTERM)."""
    log_to_stderr()
    _work_until_told(signal.SIGINT, signal.SIGTERM)


def work_as_child(lifeline: Connection, log_level: int) -> None:
    """Do the same as the child of a server, until that says so or is gone, and let its requests go first."""
    become_child(lifeline)
    # Before anything starts a thread: on Linux every thread has its own, and takes it from the one that starts it.
    os.nice(_NICENESS)
    if hasattr(os, "SCHED_BATCH"):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    log_to_stderr(log_level)
    _work_until_told(signal.SIGTERM)


def _work_until_told(*signals: signal.Signals) -> None:
    stopped = threading.Event()
    for name in signals:
        signal.signal(name, lambda *_: stopped.set())
    with open_session() as session:
        with session.database.read() as conn:
            require_pseudonym_key(conn)
        running = build_worker(session.database, session.settings)
        running.start()
        try:
            # Looking up: a signal that comes while the process is stopped may be taken by another of its threads,
            # which leaves this one, the only one that can act on it, asleep.
            while not stopped.wait(_LOOK_UP_SECONDS):
                pass
        finally:
            running.stop()
