import signal
import threading

from app.arena.fitting import FitLimits
from app.arena.worker import Worker
from app.cli.logs import log_to_stderr
from app.cli.session import open_session


def worker() -> None:
    """Run refits, asked for or by schedule, until told to stop (Ctrl-C or SIGTERM)."""
    log_to_stderr()
    stopped = threading.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: stopped.set())
    with open_session() as session:
        settings = session.settings
        running = Worker(
            session.database,
            tick_seconds=settings.worker.tick_seconds,
            lease_seconds=settings.worker.lease_seconds,
            limits=FitLimits(settings.worker.fit_seconds, settings.worker.fit_memory_bytes),
            private_webhooks=settings.webhooks.allow_private_addresses,
        )
        running.start()
        try:
            stopped.wait()
        finally:
            running.stop()
