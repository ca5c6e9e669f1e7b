"""Faults on purpose: processes stopped and killed, a database that goes away. All against the real thing."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.arena.recording import record_votes
from app.arena.refits import request_refit
from app.arena.votes import NewVote
from app.lab.simulate import simulate_votes
from app.store.database import Database

HERE = Path(__file__).parent
WINNERS = {1.0: "model_a", 0.0: "model_b", 0.5: "tie"}

WaitUntil = Callable[..., None]
StartDriver = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def wait_until() -> WaitUntil:
    def wait(condition: Callable[[], object], seconds: float = 60) -> None:
        pause = threading.Event()
        for _ in range(int(seconds / 0.01)):
            if condition():
                return
            pause.wait(0.01)
        pytest.fail("the condition did not come true")

    return wait


@pytest.fixture
def start_driver() -> Iterator[StartDriver]:
    """Start one of the scripts here; killed after the test."""
    started: list[subprocess.Popen[str]] = []

    def start(script: str, *arguments: object) -> "subprocess.Popen[str]":
        command = [sys.executable, str(HERE / script), *(str(argument) for argument in arguments)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def crowd_votes() -> list[dict[str, str]]:
    """12 honest annotators and 2 who vote against the truth, 60 votes each on 6 models."""
    simulated = simulate_votes(5, n_models=6, roles={"honest": 12, "flip": 2}, votes_each=60)
    rows = zip(simulated.annotator, simulated.model_a, simulated.model_b, simulated.outcome, strict=True)
    return [
        {
            "model_a": f"model {a}",
            "model_b": f"model {b}",
            "winner": WINNERS[float(outcome)],
            "annotator": f"{simulated.world.role[k]} {k}",
        }
        for k, a, b, outcome in rows
    ]


@pytest.fixture
def crowd(database: Database, crowd_votes: list[dict[str, str]]) -> None:
    """Their votes, on record."""
    with database.begin() as conn:
        receipts = record_votes(conn, [NewVote(**vote) for vote in crowd_votes], api_key_id=None)
    assert {receipt.status for receipt in receipts} == {"created"}


@pytest.fixture
def ask_for_refit(database: Database) -> Callable[[], object]:
    """Ask for a refit; one that waits already serves."""

    def ask() -> object:
        with database.begin() as conn:
            return request_refit(conn, trigger="request", requested_by="a test")

    return ask
