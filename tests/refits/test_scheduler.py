"""Refits on a cluster: `STABLE_ARENA_FIT__SCHEDULER`."""

import socket
from pathlib import Path

import pytest
from distributed import LocalCluster

from app.database.engine import Database
from app.rating import cluster as module
from app.rating.executors import Message
from app.refits.fit.process import FitResources
from app.refits.schemas import Refit
from app.refits.service import find_refit, request_refit
from app.settings import Settings
from app.worker import Worker


def refit_on(database: Database, scheduler: str, folder: Path) -> Refit:
    """Have a worker refit on a cluster."""
    with database.begin() as conn:
        refit_id = request_refit(conn, trigger="manual", requested_by="test", accept_exclusions=False)
    assert Worker(database, Settings(data_dir=folder, fit={"scheduler": scheduler})).run_refit() == refit_id
    with database.read() as conn:
        return find_refit(conn, refit_id)


def fail_without_scheduler(database: Database, folder: Path) -> None:
    with socket.socket() as bound, pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ANSWER_SECONDS", 0.2)
        bound.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{bound.getsockname()[1]}"
        lost = refit_on(database, address, folder)
    assert lost.state == "failed"
    assert lost.detail.startswith(f"the Dask scheduler {address} does not answer")


@pytest.mark.campaign
def test_a_refit_fails_without_its_scheduler(
    database: Database, stored_crowd: None, remote_messages: list[list[Message]], tmp_path: Path
) -> None:
    fail_without_scheduler(database, tmp_path)
    assert remote_messages == []


@pytest.mark.campaign  # every step of every leaderboard's fit is a message to both processes
def test_the_next_refit_works_on_a_cluster(
    database: Database,
    stored_crowd: None,
    cluster: LocalCluster,
    remote_messages: list[list[Message]],
    tmp_path: Path,
) -> None:
    fail_without_scheduler(database, tmp_path)
    done = refit_on(database, cluster.scheduler_address, tmp_path)
    assert (done.state, done.snapshot_number) == ("done", 1)
    assert {len(messages) for messages in remote_messages} == {2}


def test_the_scheduler_comes_from_the_settings() -> None:
    chosen = FitResources.chosen(Settings(fit={"scheduler": "tcp://10.0.0.1:8786"}))
    assert chosen.scheduler == "tcp://10.0.0.1:8786"
