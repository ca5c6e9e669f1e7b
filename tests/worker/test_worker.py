import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text
from structlog.testing import capture_logs

from app.database.engine import Database
from app.database.ids import new_id
from app.database.notices import Notices, notify
from app.errors import UnavailableError
from app.exports.service import find_export
from app.refits.fit.interface import FitOutput
from app.refits.service import find_refit, list_refits, request_refit
from app.settings import Settings
from app.snapshots.service import NoSnapshotError, find_snapshot
from app.worker import Worker
from tests.fixtures.refits import Around
from tests.fixtures.waiting import wait_until

EXPORT = """
INSERT INTO exports (id, state, what, format, requested_by) VALUES (:id, 'queued', 'votes', 'csv', 'a test')
"""


@pytest.fixture
def worker(database: Database, tmp_path: Path) -> Iterator[Worker]:
    worker = Worker(database, Settings(data_dir=tmp_path), tick_seconds=0.2)
    yield worker
    worker.stop()


@pytest.mark.campaign
@pytest.mark.own_child
def test_it_publishes_by_itself(database: Database, stored_crowd: None, worker: Worker) -> None:
    def published() -> bool:
        with database.read() as conn:
            try:
                return find_snapshot(conn).number == 1
            except NoSnapshotError:
                return False

    worker.start()
    wait_until(published)
    with database.read() as conn:
        done = list_refits(conn, limit=10)
    assert [(one.state, one.trigger) for one in done] == [("done", "schedule")]


def test_a_tick_with_nothing_to_do_does_nothing(database: Database, worker: Worker) -> None:
    assert worker.run_refit() is None
    with database.read() as conn:
        assert list_refits(conn, limit=10) == []


def test_a_dead_database_is_logged_once_and_outlived(
    database: Database, stored_crowd: None, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable() -> Connection:
        raise UnavailableError("the database cannot be reached")

    with capture_logs() as logs:
        with monkeypatch.context() as outage:
            outage.setattr(database, "read", unreachable)
            assert [worker.run_refit() for _ in range(3)] == [None, None, None]
        assert worker.run_refit() is not None
    events = [entry["event"] for entry in logs if entry["event"].startswith("database")]
    assert events == ["database_unavailable", "database_available_again"]


class TickingWorker(Worker):
    """Counts its ticks, and does nothing else."""

    ticks = 0

    def tick(self) -> Any:
        self.ticks += 1

    run_refit = measure_fragility = draw_charts = deliver_webhooks = run_files = announce_stale = tick

    def set_clock_back(self) -> None:
        """Do what an hour back does to what is due."""
        for job in self._scheduler.get_jobs():
            job.modify(next_run_time=datetime.now(UTC) + timedelta(hours=1))


class NotingWorker(TickingWorker):
    """Notes what it looks for, and does nothing else."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.looks: list[str] = []
        super().__init__(*args, **options)

    def run_refit(self) -> Any:
        self.looks.append("refits")

    def run_files(self) -> None:
        self.looks.append("files")


def test_a_notice_begins_the_work_it_is_about(database: Database) -> None:
    notices = Notices(database)
    connected = threading.Event()
    noting = NotingWorker(database, Settings(), notices=notices, tick_seconds=3600)
    notices.call("snapshots", connected.set)  # the last that is called once it listens
    noting.start()
    assert connected.wait(60)
    wait_until(lambda: noting.looks.count("files") >= 1)
    noting.looks.clear()
    for number in (1, 2, 3):
        with database.begin() as conn:
            notify(conn, "files")
        wait_until(lambda wanted=number: noting.looks.count("files") >= wanted)
    noting.stop()
    assert noting.looks.count("refits") <= 1, "its own notices and its own time"


def test_work_whose_notice_was_lost_is_found_at_a_tick(database: Database, worker: Worker) -> None:
    worker.start()
    lost = new_id()
    with database.begin() as conn:
        conn.execute(text(EXPORT), {"id": lost})

    def made() -> bool:
        with database.read() as conn:
            return find_export(conn, lost).state == "done"

    wait_until(made)


class BrokenWorker(TickingWorker):
    failures = 0

    def run_refit(self) -> Any:
        self.failures += 1
        raise ValueError("a bug")


def test_a_bug_in_one_tick_does_not_end_the_ticks(database: Database) -> None:
    broken = BrokenWorker(database, Settings(), tick_seconds=0.01)
    broken.start()
    wait_until(lambda: broken.failures > 2 and broken.ticks > 4)
    broken.stop()


def test_ticks_go_on_at_once_when_the_machines_clock_is_set_back(database: Database) -> None:
    moved = TickingWorker(database, Settings(), tick_seconds=0.05)
    moved.start()
    moved.set_clock_back()
    seen = moved.ticks
    wait_until(lambda: moved.ticks > seen + 10)
    moved.stop()


@pytest.mark.campaign
@pytest.mark.own_child
def test_stopping_cuts_a_fit_short(database: Database, stored_crowd: None, worker: Worker, around_fits: Around) -> None:
    began = threading.Event()

    def fit_endlessly(fit: Callable[[], FitOutput]) -> FitOutput:
        while True:
            fitted = fit()
            began.set()
            assert fitted is not None

    with database.begin() as conn:
        wanted = request_refit(conn, trigger="request", requested_by="a test")
    around_fits(fit_endlessly)
    worker.start()
    assert began.wait(120)
    worker.stop()
    with database.read() as conn:
        ended = find_refit(conn, wanted)
    assert (ended.state, ended.detail) == ("failed", "the worker was stopped")
