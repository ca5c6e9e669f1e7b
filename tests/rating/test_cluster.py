"""A fit whose votes are on a Dask cluster of two processes."""

import os
import signal
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, Future

import pytest
from distributed import Client, LocalCluster

from app import __version__
from app.rating import cluster as module
from app.rating.cluster import ClusterExecutors, fitting_on_cluster
from app.rating.errors import ClusterError
from app.rating.executors import Build, Message, RemoteParts, _held, current_executors, fitting_on
from app.rating.fit.result import FitResult
from app.rating.votes.cells import Cells
from tests.fixtures.cluster import SAME, assert_same, fit, start_cluster
from tests.rating.model.styled_world import fit_styled


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(cluster.scheduler_address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
        yield client


@pytest.mark.campaign
def test_a_cluster_finds_what_one_machine_finds(
    cluster: LocalCluster,
    client: Client,
    remote_cells: Cells,
    local_fit: FitResult,
    remote_messages: list[list[Message]],
) -> None:
    leans = fit_styled()
    with fitting_on_cluster(cluster.scheduler_address):
        assert_same(fit(remote_cells), local_fit)
        assert fit_styled() == pytest.approx(leans, abs=SAME)
    assert {len(messages) for messages in remote_messages} == {2}
    assert set(client.run(lambda: len(_held)).values()) == {0}  # the workers have their memory back


@pytest.mark.campaign
def test_votes_are_sent_to_each_worker_once(
    client: Client, remote_cells: Cells, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, send = [], ClusterExecutors.send
    monkeypatch.setattr(
        ClusterExecutors, "send", lambda self, to, build: sent.append(self._addresses[to]) or send(self, to, build)
    )
    with fitting_on(ClusterExecutors(client, worth=1)):
        fit(remote_cells)
    assert sorted(sent) == sorted(client.nthreads())


@pytest.mark.campaign
def test_a_worker_that_cannot_be_reached_is_survived(
    client: Client, remote_cells: Cells, local_fit: FitResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, failures = ClusterExecutors.send, [OSError("Timed out trying to connect to tcp://127.0.0.1:1 after 30 s")]

    def fail_once(self: ClusterExecutors, to: Executor, build: Build) -> object:
        if failures:
            raise failures.pop()
        return send(self, to, build)

    monkeypatch.setattr(ClusterExecutors, "send", fail_once)
    with fitting_on(ClusterExecutors(client, worth=1)):
        assert_same(fit(remote_cells), local_fit)
    assert failures == []


@pytest.mark.campaign
def test_workers_that_die_are_survived(
    remote_cells: Cells, local_fit: FitResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, seen = RemoteParts.run, []
    with start_cluster(3) as mortal, Client(mortal.scheduler_address, set_as_default=False) as client:

        def counted(self: RemoteParts, sent: list[Message]) -> list[object]:
            seen.append(sent)
            if len(seen) in (1, 12):  # before the votes are sent, and in the midst of the fit
                os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
            return run(self, sent)

        executors = ClusterExecutors(client, worth=1)
        monkeypatch.setattr(RemoteParts, "run", counted)
        with fitting_on(executors):
            assert_same(fit(remote_cells), local_fit)
            assert_same(fit(remote_cells), local_fit)


@pytest.mark.campaign
def test_a_cluster_that_dies_fails_the_fit(remote_cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_SECONDS", 3.0)
    run, seen = RemoteParts.run, []
    with start_cluster(1) as mortal:

        def counted(self: RemoteParts, sent: list[Message]) -> list[object]:
            seen.append(sent)
            if len(seen) == 12:
                mortal.close()
            return run(self, sent)

        monkeypatch.setattr(RemoteParts, "run", counted)
        with pytest.raises(ClusterError), fitting_on_cluster(mortal.scheduler_address, worth=1):
            fit(remote_cells)


@pytest.mark.campaign
def test_a_task_without_workers_fails(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_worker(*_: object, **__: object) -> None:
        raise TimeoutError("none")

    executors = ClusterExecutors(client)
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.01)
    monkeypatch.setattr(client, "wait_for_workers", no_worker)
    with pytest.raises(ClusterError, match="has no workers: none"):
        executors.wait(Future())


def test_a_scheduler_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.2)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(ClusterError, match=f"{address} does not answer"), fitting_on_cluster(address):
            pass


@pytest.mark.campaign
def test_workers_of_another_version_are_refused(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "run", lambda version: {"tcp://10.0.0.9:1": f"{version()}.9"})
    with pytest.raises(ClusterError, match=rf"tcp://10.0.0.9:1 has stable-arena {__version__}.9, and this is"):
        ClusterExecutors(client)


def test_without_a_scheduler_fits_stay_here() -> None:
    with fitting_on_cluster(None):
        assert current_executors() is None


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(ClusterError, match=r"pip install stable-arena\[dask\]"),
        fitting_on_cluster("tcp://127.0.0.1:1"),
    ):
        pass


@pytest.mark.campaign
def test_a_long_task_is_waited_for(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    executors, future = ClusterExecutors(client), Future()
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(executors, "_look", lambda: future.set_result(None))
    executors.wait(future)
    assert future.done()


@pytest.mark.campaign
def test_workers_without_this_package_are_refused(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_module(_: object) -> None:
        raise ModuleNotFoundError("No module named 'app'")

    monkeypatch.setattr(client, "run", no_module)
    with pytest.raises(ClusterError, match="cannot import stable-arena: No module named 'app'"):
        ClusterExecutors(client)


@pytest.mark.campaign
def test_a_partition_leaves_only_a_dead_worker(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    executors = ClusterExecutors(client)
    first, second = executors._live
    assert executors.keep_or_replace(0, first, failed=True) is first
    monkeypatch.setattr(executors, "_look", lambda: [second])
    assert executors.keep_or_replace(0, first, failed=False) is second
