"""Fits that are cut short: by whom asked for them to be, by a limit, or because the worker is stopped."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

import numpy as np
import pytest

from app.database.engine import Database
from app.database.ids import new_id
from app.errors import ConflictError, NotFoundError
from app.rating.settings import LoopSettings
from app.refits.fit.fit import fit_snapshot
from app.refits.fit.interface import FitOutput
from app.refits.fit.process import FitProcess, FitProcessLostError, FitResources, FitTooLargeError
from app.refits.runner import RefitRunner
from app.refits.service import cancel_refit, find_refit, request_refit
from tests.fixtures.fit_inputs import make_fit_input
from tests.fixtures.refits import Around

T = TypeVar("T")


def fit_of(n_votes: int = 60) -> Callable[[], FitOutput]:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 5, n_votes).astype(np.int32), rng.integers(1, 5, n_votes).astype(np.int32)
    fit_input = make_fit_input(
        rng.integers(0, 3, n_votes),
        a,
        (a + b) % 5,
        rng.choice([0.0, 0.5, 1.0], n_votes),
        n_annotators=3,
        n_models=5,
        settings=LoopSettings(min_votes=0),
    )
    return partial(fit_snapshot, fit_input)


@pytest.fixture
def hanging(once_submitted: Callable[..., None]) -> Iterator[list[int]]:
    """Every child that fits is stopped (SIGSTOP) as soon as it starts; yields their process ids."""
    stopped: list[int] = []

    def stop(process: FitProcess, _work: object) -> None:
        assert process.child_pid is not None
        stopped.append(process.child_pid)
        os.kill(stopped[-1], signal.SIGSTOP)

    once_submitted(stop)
    yield stopped
    for pid in stopped:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.own_child
def test_a_fit_that_takes_too_long(hanging: list[int]) -> None:
    process = FitProcess(FitResources(seconds=0.5))
    with pytest.raises(FitTooLargeError):
        process.run(fit_of(200_000))
    assert len(hanging) == 1


@pytest.mark.campaign
@pytest.mark.own_child
def test_a_fit_that_needs_too_much_memory() -> None:
    process = FitProcess(FitResources(memory_bytes=500_000_000))
    try:
        # In the fit it is an error like any other; while the votes are handed over it is the process's end.
        with pytest.raises((FitTooLargeError, FitProcessLostError)):
            process.run(fit_of(16_000_000))
        assert process.run(fit_of()).diagnostics.converged, "another child fits what is small enough"
    finally:
        process.stop()


@pytest.mark.campaign
@pytest.mark.own_child
def test_a_hanging_child_does_not_keep_the_worker_from_stopping(hanging: list[int]) -> None:
    process = FitProcess()
    ended: list[BaseException] = []

    def fit() -> None:
        try:
            process.run(fit_of(200_000))
        except BaseException as error:  # noqa: BLE001  told to the test
            ended.append(error)

    thread = threading.Thread(target=fit)
    thread.start()
    while not hanging:
        assert thread.is_alive()
    process.stop()
    thread.join(120)
    assert not thread.is_alive()
    assert "stopped" in str(ended[0])


@pytest.mark.own_child
def test_cancelling_while_it_fits(database: Database, stored_crowd: None, hanging: list[int]) -> None:
    with database.begin() as conn:
        wanted = request_refit(conn, trigger="request", requested_by="a test")
    runner = RefitRunner(database, lease_seconds=30)
    thread = threading.Thread(target=runner.run_next, kwargs={"scheduled": False})
    thread.start()
    while not hanging:
        assert thread.is_alive()
    with database.begin() as conn:
        seen = cancel_refit(conn, wanted)
    assert (seen.state, seen.ended) == ("fitting", False)
    assert seen.cancel_requested_at is not None
    assert "read" in seen.seconds
    thread.join(120)
    with database.read() as conn:
        ended = find_refit(conn, wanted)
    assert (ended.state, ended.detail) == ("cancelled", "the refit was cancelled while it fitted")
    with database.begin() as conn, pytest.raises(ConflictError):
        cancel_refit(conn, wanted)


def test_cancelling_one_that_waits(database: Database, fit_process: FitProcess) -> None:
    with database.begin() as conn:
        wanted = request_refit(conn, trigger="request", requested_by="a test")
        assert cancel_refit(conn, wanted).state == "cancelled"
        again = request_refit(conn, trigger="request", requested_by="a test")
    assert again != wanted
    runner = RefitRunner(database, lease_seconds=30, process=fit_process)
    assert runner.run_next(scheduled=False) == again


def test_cancelling_before_it_publishes(
    database: Database, stored_crowd: None, fit_process: FitProcess, around_fits: Around
) -> None:
    def fit_and_be_cancelled(fit: Callable[[], FitOutput]) -> FitOutput:
        fitted = fit()
        with database.begin() as conn:
            cancel_refit(conn, wanted)
        return fitted

    with database.begin() as conn:
        wanted = request_refit(conn, trigger="request", requested_by="a test")
    around_fits(fit_and_be_cancelled)
    RefitRunner(database, lease_seconds=30, process=fit_process).run_next(scheduled=False)
    with database.read() as conn:
        ended = find_refit(conn, wanted)
    assert (ended.state, ended.snapshot_id) == ("cancelled", None)


def test_nothing_to_cancel(database: Database) -> None:
    with database.begin() as conn, pytest.raises(NotFoundError):
        cancel_refit(conn, new_id())


class CancelledFitProcess(FitProcess):
    def submit(self, work: Callable[[], T]) -> Future[T]:  # noqa: ARG002  as that of a process that is stopped
        future: Future[T] = Future()
        future.cancel()
        return future


def test_a_fit_cancelled_before_it_begins_is_not_waited_for() -> None:
    with pytest.raises(FitProcessLostError):
        CancelledFitProcess().run(fit_of())
