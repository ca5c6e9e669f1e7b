"""A worker that ticks fast and counts its ticks: arguments URL LEASE_SECONDS TICK_SECONDS; runs until SIGTERM."""

import faulthandler
import signal
import sys
import threading
from uuid import UUID

from app.cli.worker import wait_awake
from app.database.engine import Database
from app.settings import Settings, WorkerSettings
from app.worker import Worker


class CountingWorker(Worker):
    ticks = 0

    def run_refit(self) -> UUID | None:
        self.ticks += 1
        return super().run_refit()


def main(url: str, lease_seconds: float, tick_seconds: float) -> None:
    answers, sys.stdout = sys.stdout, sys.stderr  # where the log goes
    faulthandler.register(signal.SIGUSR1)  # where each thread is, for a worker that does not end
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    with Database(url) as database:
        settings = Settings(worker=WorkerSettings(lease_seconds=lease_seconds))
        worker = CountingWorker(database, settings, tick_seconds=tick_seconds)
        worker.start()
        wait_awake(stopped)
        worker.stop()
    print(worker.ticks, file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]))
