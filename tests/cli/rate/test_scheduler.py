"""`rate --scheduler`: the votes on a cluster."""

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from distributed import LocalCluster
from typer.testing import Result

from app.rating import cluster as module
from app.rating.executors import Message

RunCli = Callable[..., Result]


@pytest.mark.campaign
def test_the_leaderboard_is_that_of_one_machine(
    run_cli: RunCli, vote_file: Path, cluster: LocalCluster, remote_messages: list[list[Message]]
) -> None:
    rate = ("rate", vote_file, "--format", "json")
    here = json.loads(run_cli(*rate).stdout)
    assert remote_messages == []
    there = json.loads(run_cli(*rate, "--scheduler", cluster.scheduler_address).stdout)
    assert {len(messages) for messages in remote_messages} == {2}
    for table in ("models", "annotators"):
        for one, other in zip(here[table], there[table], strict=True):
            assert one == {name: pytest.approx(value, abs=1e-6) for name, value in other.items()}


def test_a_scheduler_that_does_not_answer_is_a_failure(
    run_cli: RunCli, vote_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.2)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{bound.getsockname()[1]}"
        result = run_cli("rate", vote_file, "--scheduler", address)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"error: the Dask scheduler {address} does not answer")
    assert result.stderr.count("\n") == 1


def test_what_a_scheduler_cannot_do_is_refused(run_cli: RunCli, vote_file: Path) -> None:
    result = run_cli("rate", vote_file, "--method", "m-elo", "--scheduler", "tcp://127.0.0.1:1")
    assert result.exit_code == 2
    assert "--scheduler is for am-elo" in result.stderr
