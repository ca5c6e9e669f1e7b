"""A fit whose partitions are in other processes: the same answer, whatever becomes of the processes."""

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context

import numpy as np
import pytest

from app.lab.simulate import simulate_votes
from app.rating.data.votes import Cells, aggregate
from app.rating.errors import ClusterError
from app.rating.solver import executors as module
from app.rating.solver.executors import Executors, RemoteParts, fitting_on
from app.rating.solver.fit import Fit, fit_am_elo

SAME = 1e-9


@pytest.fixture(scope="module")
def cells() -> Cells:
    votes = simulate_votes(1, n_models=12, roles={"honest": 60, "random": 3}, votes_each=60)
    return aggregate(votes.annotator, votes.model_a, votes.model_b, votes.outcome, **votes.sizes)


def fit(cells: Cells, cap: float | None = 1.75) -> Fit:
    return fit_am_elo(cells, np.zeros(cells.n_models, dtype=np.int64), ability_cap=cap)


@pytest.fixture(scope="module")
def here(cells: Cells) -> Fit:
    return fit(cells)


@pytest.fixture(scope="module")
def processes() -> Iterator[Callable[[int], ProcessPoolExecutor]]:
    """Start pools of so many processes; they end with the tests of this module."""
    with ExitStack() as stack:
        yield lambda number: stack.enter_context(ProcessPoolExecutor(number, mp_context=get_context("spawn")))


@pytest.fixture(scope="module")
def two(processes: Callable[[int], ProcessPoolExecutor]) -> list[Executor]:
    return [processes(1), processes(1)]


def assert_same(there: Fit, here: Fit) -> None:
    np.testing.assert_allclose(there.R, here.R, rtol=0, atol=SAME)
    np.testing.assert_allclose(there.theta, here.theta, rtol=0, atol=SAME)
    assert there.log_likelihood == pytest.approx(here.log_likelihood, abs=SAME * abs(here.log_likelihood))
    assert there.iterations == here.iterations


def test_two_processes_find_what_one_finds(cells: Cells, here: Fit, two: list[Executor]) -> None:
    with fitting_on(Executors(two, worth=1)):
        assert_same(fit(cells), here)


def test_two_threads_find_what_one_finds(cells: Cells, here: Fit) -> None:
    with ThreadPoolExecutor(2) as pool, fitting_on(Executors([pool, pool], worth=1)):
        assert_same(fit(cells), here)
    assert module._held == {}  # the fit has given its partitions back


def test_votes_are_sent_once(cells: Cells, two: list[Executor], monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []
    monkeypatch.setattr(Executors, "send", lambda _, executor, build: sent.append(executor) or build)
    with fitting_on(Executors(two, worth=1)):
        fit(cells)
        assert sent == two
        fit(cells)
    assert sent == [*two, *two]


def test_partitions_may_be_anywhere(cells: Cells, here: Fit, processes: Callable[[int], ProcessPoolExecutor]) -> None:
    """One pool that chooses among its processes: a partition that is not where the task is, is built there."""
    pool = processes(2)
    with fitting_on(Executors([pool, pool, pool], worth=1)):
        assert_same(fit(cells), here)


def test_small_fits_stay_here(cells: Cells, here: Fit) -> None:
    with fitting_on(Executors([], worth=1)):
        assert_same(fit(cells), here)
    pool = ThreadPoolExecutor()
    pool.shutdown()  # any task would fail
    with fitting_on(Executors([pool], worth=len(cells.n) + 1)):
        assert_same(fit(cells), here)


def kill_after(monkeypatch: pytest.MonkeyPatch, messages: int, victims: list[Executor]) -> None:
    """Kill the processes of executors after a fit's so many messages."""
    run, seen = RemoteParts.run, []

    def counted(self: RemoteParts, sent: list[module.Message]) -> list[object]:
        seen.append(sent)
        if len(seen) == messages:
            for victim in victims:
                os.kill(victim.submit(os.getpid).result(), signal.SIGKILL)
        return run(self, sent)

    monkeypatch.setattr(RemoteParts, "run", counted)


@pytest.mark.parametrize("messages", [1, 12])
def test_a_process_that_dies_is_survived(
    cells: Cells,
    here: Fit,
    processes: Callable[[int], ProcessPoolExecutor],
    monkeypatch: pytest.MonkeyPatch,
    messages: int,
) -> None:
    mortal, lasting = processes(1), processes(1)
    kill_after(monkeypatch, messages, [mortal])
    executors = Executors([mortal, lasting], worth=1)
    with fitting_on(executors):
        assert_same(fit(cells), here)
        assert executors._live == [lasting]
        assert_same(fit(cells), here)


def test_a_fit_without_processes_fails_and_the_next_one_works(
    cells: Cells, here: Fit, processes: Callable[[int], ProcessPoolExecutor], monkeypatch: pytest.MonkeyPatch
) -> None:
    mortal = processes(1)
    kill_after(monkeypatch, 5, [mortal])
    with fitting_on(Executors([mortal], worth=1)), pytest.raises(ClusterError, match="every process"):
        fit(cells)
    with fitting_on(Executors([processes(1)], worth=1)):
        assert_same(fit(cells), here)


def test_partitions_of_dead_fits_are_dropped(cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    def abandon(self: RemoteParts) -> None:
        """Die without a word."""

    with ThreadPoolExecutor(1) as pool:
        with monkeypatch.context() as patch, fitting_on(Executors([pool], worth=1)):
            patch.setattr(RemoteParts, "close", abandon)
            fit(cells)
        (left,) = module._held
        monkeypatch.setattr(module, "IDLE_SECONDS", -1.0)
        executors = Executors([pool], worth=1)
        parts = RemoteParts(executors, [dict])
        parts.run([module.Message(len, (), {})])
        assert list(module._held) == [module.Place(executors.driver, 0)] != [left]
        parts.close()
    assert module._held == {}


def test_an_error_of_the_work_is_the_fits(cells: Cells) -> None:
    with ThreadPoolExecutor(1) as pool, pytest.raises(ZeroDivisionError):
        RemoteParts(Executors([pool]), [dict]).run([module.Message(lambda _: 1 / 0, (), {})])
