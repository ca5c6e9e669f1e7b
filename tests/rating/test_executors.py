"""A fit whose partitions are in other processes: the same answer, whatever becomes of the processes."""

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context

import pytest

from app.rating import executors as module
from app.rating.errors import ClusterError
from app.rating.executors import Executors, RemoteParts, fitting_on
from app.rating.fitted import FitResult
from app.rating.votes.cells import Cells
from tests.fixtures.cluster import SAME, assert_same, fit
from tests.rating.model.styled_world import fit_styled

Start = Callable[[int], ProcessPoolExecutor]


@pytest.fixture(scope="module")
def processes() -> Iterator[Start]:
    """Start pools of so many processes; they end with the tests of this module."""
    with ExitStack() as stack:
        yield lambda number: stack.enter_context(ProcessPoolExecutor(number, mp_context=get_context("spawn")))


@pytest.fixture(scope="module")
def two(processes: Start) -> list[Executor]:
    """One process in both places: to start another takes seconds."""
    pool = processes(1)
    return [pool, pool]


def test_two_processes_find_what_one_finds(remote_cells: Cells, local_fit: FitResult, two: list[Executor]) -> None:
    with fitting_on(Executors(two, worth=1)):
        assert_same(fit(remote_cells), local_fit)


def test_two_processes_find_the_leans_that_one_finds(two: list[Executor]) -> None:
    local = fit_styled()
    with fitting_on(Executors(two, worth=1)):
        assert fit_styled() == pytest.approx(local, abs=10.0 * SAME)  # each part's products have 32 bits


def test_two_threads_find_what_one_finds(remote_cells: Cells, local_fit: FitResult) -> None:
    with ThreadPoolExecutor(2) as pool, fitting_on(Executors([pool, pool], worth=1)):
        assert_same(fit(remote_cells), local_fit)
    assert module._held == {}  # the fit has given its partitions back


def test_votes_are_sent_once(remote_cells: Cells, two: list[Executor], monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []
    monkeypatch.setattr(Executors, "send", lambda _, executor, build: sent.append(executor) or build)
    with fitting_on(Executors(two, worth=1)):
        fit(remote_cells)
        assert sent == two
        fit(remote_cells)
    assert sent == [*two, *two]


@pytest.mark.campaign
def test_partitions_may_be_anywhere(remote_cells: Cells, local_fit: FitResult, processes: Start) -> None:
    """One pool that chooses among its processes: a partition that is not where the task is, is built there."""
    pool = processes(2)
    with fitting_on(Executors([pool, pool, pool], worth=1)):
        assert_same(fit(remote_cells), local_fit)


def test_small_fits_stay_here(remote_cells: Cells, local_fit: FitResult) -> None:
    with fitting_on(Executors([], worth=1)):
        assert_same(fit(remote_cells), local_fit)
    pool = ThreadPoolExecutor()
    pool.shutdown()  # any task would fail
    with fitting_on(Executors([pool], worth=len(remote_cells.n) + 1)):
        assert_same(fit(remote_cells), local_fit)


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


@pytest.mark.campaign
@pytest.mark.parametrize("messages", [1, 12])
def test_a_process_that_dies_is_survived(
    remote_cells: Cells,
    local_fit: FitResult,
    processes: Start,
    two: list[Executor],
    monkeypatch: pytest.MonkeyPatch,
    messages: int,
) -> None:
    mortal, lasting = processes(1), two[0]
    kill_after(monkeypatch, messages, [mortal])
    executors = Executors([mortal, lasting], worth=1)
    with fitting_on(executors):
        assert_same(fit(remote_cells), local_fit)
        assert executors._live == [lasting]
        assert_same(fit(remote_cells), local_fit)


@pytest.mark.campaign
def test_a_fit_without_processes_fails_and_the_next_one_works(
    remote_cells: Cells,
    local_fit: FitResult,
    processes: Start,
    two: list[Executor],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mortal = processes(1)
    kill_after(monkeypatch, 5, [mortal])
    with fitting_on(Executors([mortal], worth=1)), pytest.raises(ClusterError, match="every process"):
        fit(remote_cells)
    with fitting_on(Executors(two, worth=1)):
        assert_same(fit(remote_cells), local_fit)


def test_partitions_of_dead_fits_are_dropped(remote_cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    def abandon(self: RemoteParts) -> None:
        """Die without a word."""

    with ThreadPoolExecutor(1) as pool:
        with monkeypatch.context() as patch, fitting_on(Executors([pool], worth=1)):
            patch.setattr(RemoteParts, "close", abandon)
            fit(remote_cells)
        (left,) = module._held
        monkeypatch.setattr(module, "IDLE_SECONDS", -1.0)
        executors = Executors([pool], worth=1)
        parts = RemoteParts(executors, [dict])
        parts.run([module.Message(len, (), {})])
        assert list(module._held) == [module.PartitionKey(executors.driver, 0)] != [left]
        parts.close()
    assert module._held == {}


def test_a_partition_that_is_lost_is_built_again_with_all_it_was_sent() -> None:
    def grow(partition: list[int], number: int) -> list[int]:
        partition.append(number)
        return partition

    with ThreadPoolExecutor(1) as pool:
        parts = RemoteParts(Executors([pool]), [list])
        parts.run([module.Message(grow, (1,), {})])
        module._held.clear()
        assert parts.run([module.Message(grow, (2,), {})]) == [[1, 2]]
        assert parts.run([module.Message(grow, (3,), {})]) == [[1, 2, 3]]
        parts.close()


def test_an_error_of_the_work_is_the_fits(remote_cells: Cells) -> None:
    with ThreadPoolExecutor(1) as pool, pytest.raises(ZeroDivisionError):
        RemoteParts(Executors([pool]), [dict]).run([module.Message(lambda _: 1 / 0, (), {})])


class Dead(Executor):
    """An executor whose process has died."""

    def submit(self, *_: object) -> Future[object]:
        raise BrokenExecutor("dead")


def test_executors_that_die_one_after_the_other_fail_the_fit(remote_cells: Cells) -> None:
    executors = Executors([Dead() for _ in range(9)], worth=len(remote_cells.n))
    with fitting_on(executors), pytest.raises(ClusterError, match="died 4 times in a row: dead"):
        fit(remote_cells)
    assert len(executors._live) == 5


def test_a_driver_forgets_its_own_partitions_alone() -> None:
    with ThreadPoolExecutor(1) as pool:
        one, other = Executors([pool]), Executors([pool])
        parts, others = RemoteParts(one, [dict]), RemoteParts(other, [dict])
        assert parts.run([module.Message(len, (), {})]) == others.run([module.Message(len, (), {})]) == [0]
        parts.close()
        assert list(module._held) == [module.PartitionKey(other.driver, 0)]
        others.close()
