import signal
import threading
from multiprocessing.connection import Connection

from app.cli.children import become_child, heeds_hangup, wait_awake
from app.cli.logs import log_level, log_to_stderr
from app.cli.session import open_session
from app.naming.service import require_pseudonym_key
from app.refits.fit.process_priority import leave_a_processor_free, let_others_go_first
from app.settings import read_settings
from app.worker.assembly import build_worker


def worker() -> None:
    """Run refits, imports and exports until told to stop (Ctrl-C, SIGTERM or SIGHUP)."""
    log_to_stderr(log_level(read_settings()))
    ending = {signal.SIGINT, signal.SIGTERM} | ({signal.SIGHUP} if heeds_hangup() else set())
    _work_until_told(*ending, revives=True)


def work_as_child(lifeline: Connection, log_level: int) -> None:
    """Do the same as the child of a server, until that says so or is gone, and let its requests go first."""
    become_child(lifeline)
    let_others_go_first()
    leave_a_processor_free()
    log_to_stderr(log_level)
    _work_until_told(signal.SIGTERM, revives=False)  # or the database would let others go first too


def _work_until_told(*signals: signal.Signals, revives: bool) -> None:
    stopped = threading.Event()
    for name in signals:
        signal.signal(name, lambda *_: stopped.set())
    with open_session(revives=revives) as session:
        with session.database.read() as conn:
            require_pseudonym_key(conn)
        running = build_worker(session.database, session.settings)
        running.start()
        try:
            wait_awake(stopped)
        finally:
            running.stop()
