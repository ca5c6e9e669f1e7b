import gc
import signal
import threading
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection

from app.cli.logs import log_level, log_to_stderr
from app.cli.stopping import stop_at_once, stop_signals
from app.naming.service import require_pseudonym_key
from app.opening import open_database_of
from app.refits.fit.work_process import WORKER_PRIORITY, become_child, lower_priority
from app.settings import Settings, read_settings

_LOOK_UP_SECONDS = 1.0


def worker() -> None:
    """Run refits, imports and exports until it is stopped."""
    settings = read_settings()
    log_to_stderr(log_level(settings))
    start_resource_tracker()
    _work_until(stop_signals(), settings, revives=True)


def work_as_child(parent_death: Connection, settings: Settings) -> None:
    """Do the same as a child of `serve`, with lower priority, until `serve` stops it or is gone."""
    become_child(parent_death)
    lower_priority(WORKER_PRIORITY)
    log_to_stderr(log_level(settings))
    # A database server that this process starts would have its low priority: the servers start it again.
    _work_until({signal.SIGTERM}, settings, revives=False)


def start_resource_tracker() -> None:
    """Start the process that cleans up after child processes, so that the end of the terminal's session spares it.

    `multiprocessing` starts it with the first child. It ignores Ctrl-C and SIGTERM, but SIGHUP to the whole group would
    end it before those that it cleans up after. A blocked signal stays blocked in a program that is started.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        resource_tracker.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def wait_awake(stopped: threading.Event) -> None:
    """Wait in the main thread for an event that a signal sets.

    Python runs signal handlers in the main thread alone. A signal that comes while the process is stopped (SIGSTOP) may
    reach another thread and leave the main thread asleep, so it wakes up every second.
    """
    while not stopped.wait(_LOOK_UP_SECONDS):
        pass


def _work_until(signals: set[signal.Signals], settings: Settings, *, revives: bool) -> None:
    from app.worker import Worker  # noqa: PLC0415  `serve` imports this module and stays small

    stopped = stop_at_once(signals)
    with open_database_of(settings, revives=revives) as database:
        with database.read() as conn:
            require_pseudonym_key(conn)
        running = Worker(database, settings, prepare_child=partial(log_to_stderr, log_level(settings)))
        for name in signals:
            signal.signal(name, lambda *_: stopped.set())
        running.start()
        try:
            wait_awake(stopped)
        finally:
            running.stop()
    gc.freeze()  # or the interpreter searches all loaded libraries for garbage as it ends: half a second
