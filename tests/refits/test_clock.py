"""The database's clock was an hour ahead and is set right: nothing waits until it has caught up."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from httpx import Client
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import text

from app.database.engine import Database
from app.monitoring.checks import Check, check_service
from app.monitoring.service import read_figures
from app.refits.runner import RefitRunner
from app.refits.schemas import Refit
from app.refits.service import find_refit, list_refits, request_refit
from app.settings import Settings
from app.worker import Worker
from tests.fixtures.waiting import wait_until

TIMES = {
    "leases": ("expires_at",),
    "refits": ("requested_at", "started_at", "finished_at"),
    "snapshots": ("published_at",),
    "votes": ("received_at",),
}
Ask = Callable[..., Any]


@pytest.fixture
def set_clock_back(database: Database) -> Callable[[], None]:
    """Let everything on record be an hour ahead of the clock."""

    def move() -> None:
        with database.begin() as conn:
            for table, columns in TIMES.items():
                changes = ", ".join(f"{column} = {column} + interval '1 hour'" for column in columns)
                conn.execute(text(f"UPDATE {table} SET {changes}"))

    return move


@pytest.fixture
def board_from_future(stored_crowd: None, run_refit: Callable[..., Refit], set_clock_back: Callable[[], None]) -> None:
    """A leaderboard that was published while the clock was ahead."""
    assert run_refit().state == "done"
    set_clock_back()


@pytest.fixture
def metrics(client: Client, keys: dict[str, str]) -> Callable[[], dict[str, float]]:
    def read() -> dict[str, float]:
        answer = client.get("/metrics", headers={"Authorization": f"Bearer {keys['read']}"})
        families = text_string_to_metric_families(answer.text)
        return {one.name.removeprefix("stable_arena_"): one.value for family in families for one in family.samples}

    return read


@pytest.fixture
def check(database: Database) -> Callable[[str], Check]:
    """One of the checks that `doctor` prints."""

    def find(name: str) -> Check:
        with database.read() as conn:
            return {check.name: check for check in check_service(read_figures(conn))}[name]

    return find


def test_a_refit_on_demand_runs_at_once(database: Database, board_from_future: None, runner: RefitRunner) -> None:
    with database.begin() as conn:
        wanted = request_refit(conn, trigger="request", requested_by="a test")
    assert runner.run_next(scheduled=False) == wanted
    with database.read() as conn:
        assert find_refit(conn, wanted).state == "done"


def test_a_refit_is_due_by_the_time_that_holds(
    database: Database, board_from_future: None, vote: Ask, runner: RefitRunner
) -> None:
    vote()
    ran = runner.run_next(scheduled=True)
    assert ran is not None
    vote(battle_id="another")
    assert runner.run_next(scheduled=True) is None  # that refit has only just ended


def test_a_refit_whose_worker_died_is_not_left_running(
    database: Database, board_from_future: None, tmp_path: Path
) -> None:
    with database.begin() as conn:
        conn.execute(text("UPDATE refits SET state = 'fitting', finished_at = NULL"))
        conn.execute(text("UPDATE leases SET expires_at = clock_timestamp() + interval '1 hour', seconds = 0.1"))
    worker = Worker(database, Settings(data_dir=tmp_path))

    def failed() -> bool:
        worker.run_refit()
        with database.read() as conn:
            return [refit.state for refit in list_refits(conn, limit=10)] == ["failed"]

    wait_until(failed)
    worker.stop()


def test_the_board_is_said_to_be_from_the_future(
    client: Client, board_from_future: None, metrics: Callable[[], dict[str, float]], check: Callable[[str], Check]
) -> None:
    fresh = client.get("/api/v1/leaderboard").json()
    assert (fresh["stale"], fresh["age_seconds"]) == (True, 0)
    found = metrics()
    assert (found["board_stale"], found["snapshot_age_seconds"], found["refit_last_ended_age_seconds"]) == (1, 0, 0)
    assert 3500 < found["snapshot_ahead_seconds"] <= 3600
    assert check("Leaderboard").tone == "bad"
    assert "59 minutes in the future" in check("Leaderboard").words


def test_a_board_that_is_ahead_by_a_moment_is_in_order(
    client: Client, database: Database, stored_crowd: None, run_refit: Callable[..., Refit]
) -> None:
    run_refit()
    with database.begin() as conn:
        conn.execute(text("UPDATE snapshots SET published_at = clock_timestamp() + interval '20 seconds'"))
    fresh = client.get("/api/v1/leaderboard").json()
    assert (fresh["stale"], fresh["age_seconds"]) == (False, 0)


def test_a_refit_that_waits_since_then_is_pointed_out(
    database: Database,
    set_clock_back: Callable[[], None],
    metrics: Callable[[], dict[str, float]],
    check: Callable[[str], Check],
) -> None:
    with database.begin() as conn:
        request_refit(conn, trigger="request", requested_by="a test")
    assert check("Worker").tone == "good"
    set_clock_back()
    assert check("Worker").tone == "bad"
    assert metrics()["refit_waiting_seconds"] == 0


def test_the_next_refit_is_announced_by_the_time_that_holds(
    client: Client, database: Database, board_from_future: None, vote: Ask, run_refit: Callable[..., Refit]
) -> None:
    run_refit()
    vote()
    due = client.get("/api/v1/leaderboard").json()["next_refit_due_at"]
    with database.read() as conn:
        ahead = conn.execute(text("SELECT CAST(:due AS timestamptz) - clock_timestamp()"), {"due": due}).scalar_one()
    assert timedelta(minutes=9) < ahead <= timedelta(minutes=10)
