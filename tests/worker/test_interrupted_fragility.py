"""Refits interrupt the measurement of fragility, which has the same process; it begins again after them."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.database.engine import Database
from app.database.leases import acquire_lease
from app.refits.fit.process import FitCancelledError, FitProcess
from app.refits.fragility import measure_both
from app.refits.schedule import REFIT_LEASE
from app.refits.service import find_refit, request_refit
from app.settings import Settings
from app.snapshots.service import find_snapshot
from app.worker import Worker
from tests.fixtures.waiting import wait_until


@pytest.fixture
def worker(database: Database, stored_crowd: None, tmp_path: Path) -> Iterator[Worker]:
    """A worker that has published a snapshot as soon as it runs."""
    worker = Worker(database, Settings(data_dir=tmp_path), tick_seconds=0.2)
    yield worker
    worker.stop()


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each measurement was interrupted. It asks once, and is too short to be interrupted later."""
    answers: list[bool] = []
    run = FitProcess.run

    def ask_once(self: FitProcess, work: Any, *, cancelled: Callable[[], bool] = lambda: False) -> Any:
        if work.func is measure_both:
            answers.append(cancelled())
            if answers[-1]:
                raise FitCancelledError("a refit goes first")
        return run(self, work, cancelled=cancelled)

    monkeypatch.setattr(FitProcess, "run", ask_once)
    return answers


def ask_for_refit(database: Database) -> Any:
    with database.begin() as conn:
        return request_refit(conn, trigger="request", requested_by="a test")


def newest(database: Database) -> tuple[int, bool]:
    """Return the newest snapshot's number, and whether its fragility is known."""
    with database.read() as conn:
        snapshot = find_snapshot(conn)
    return snapshot.number, snapshot.diagnostics["fragility"] is not None


def test_a_refit_by_schedule_interrupts_it_once(
    database: Database, worker: Worker, interrupted: list[bool], store_policy: Callable[..., None]
) -> None:
    """However soon the next refit is due, at least every second measurement ends."""
    for number in (1, 2):
        store_policy(refit_interval_seconds=0.001, min_votes=50 - number)  # something new
        assert worker.run_refit() is not None
        store_policy(refit_interval_seconds=0.001, min_votes=40 - number)
        assert not worker.measure_fragility()
        assert newest(database) == (number, False)
        assert worker.measure_fragility()
        assert newest(database) == (number, True)
    assert interrupted == [True, False] * 2


def test_a_refit_that_was_asked_for_never_waits(database: Database, worker: Worker, interrupted: list[bool]) -> None:
    worker.run_refit()
    ask_for_refit(database)
    assert [worker.measure_fragility() for _ in range(2)] == [False, False]
    assert interrupted == [True, True]
    assert worker.run_refit() is not None
    assert worker.measure_fragility()
    assert newest(database) == (2, True)


def test_a_refit_that_another_worker_runs_leaves_it_alone(
    database: Database, worker: Worker, interrupted: list[bool]
) -> None:
    worker.run_refit()
    ask_for_refit(database)
    with database.begin() as conn:
        assert acquire_lease(conn, REFIT_LEASE, "another worker", 60.0) is not None
    assert worker.measure_fragility()
    assert interrupted == [False]


@pytest.mark.campaign
@pytest.mark.own_child
def test_a_refit_is_published_while_a_measurement_hangs(
    database: Database, worker: Worker, once_submitted: Callable[..., None]
) -> None:
    hangs = threading.Event()

    def hang(process: FitProcess, work: Any) -> None:
        if not hangs.is_set() and work.args[1].func is measure_both:
            assert process.child_pid is not None
            os.kill(process.child_pid, signal.SIGSTOP)
            hangs.set()

    once_submitted(hang)
    worker.start()
    assert hangs.wait(120)
    assert newest(database) == (1, False)
    wanted = ask_for_refit(database)

    def ended() -> bool:
        with database.read() as conn:
            return find_refit(conn, wanted).ended

    wait_until(ended, 120)
    with database.read() as conn:
        assert find_refit(conn, wanted).state == "done"
    wait_until(lambda: newest(database) == (2, True), 120)
