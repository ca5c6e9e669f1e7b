"""The server's process that sends a refit its votes lets others go first, and is not used again."""

import os

import pytest
from sqlalchemy import text

from app.database.backend_priority import stand_back
from app.database.engine import Database

PID = text("SELECT pg_backend_pid()")


@pytest.mark.skipif(
    os.geteuid() != 0 and "STABLE_ARENA_TEST_DATABASE_URL" in os.environ, reason="another user's server"
)
def test_it_is_nice_and_closed_after(database_url: str) -> None:
    with Database(database_url, pool_size=1) as database:
        with database.read() as conn:
            usual = conn.execute(PID).scalar_one()
        with database.read() as conn:
            stand_back(conn)
            assert conn.execute(PID).scalar_one() == usual
            assert os.getpriority(os.PRIO_PROCESS, usual) == 19
            assert os.sched_getaffinity(usual) <= os.sched_getaffinity(0)
            assert conn.execute(text("SHOW max_parallel_workers_per_gather")).scalar_one() == "0"
        with database.read() as conn:
            fresh = conn.execute(PID).scalar_one()
            assert fresh != usual
            assert os.getpriority(os.PRIO_PROCESS, fresh) < 19
            assert conn.execute(text("SHOW max_parallel_workers_per_gather")).scalar_one() != "0"


def test_a_server_that_is_another_user_s_is_left_as_it_is(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("not yours")

    monkeypatch.setattr(os, "setpriority", refuse)
    with Database(database_url) as database, database.read() as conn:
        stand_back(conn)
        assert conn.execute(text("SELECT 1")).scalar_one() == 1
