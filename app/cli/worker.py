import signal
import threading

from app.assembly import build_worker
from app.cli.logs import log_to_stderr
from app.cli.session import open_session


def worker() -> None:
    """Run refits, imports and exports until told to stop (Ctrl-C or SIGTERM)."""
    log_to_stderr()
    stopped = threading.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: stopped.set())
    with open_session() as session:
        running = build_worker(session.database, session.settings)
        running.start()
        try:
            stopped.wait()
        finally:
            running.stop()
