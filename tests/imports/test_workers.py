"""Imports outlive the workers that run them."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from httpx import Client
from sqlalchemy import text

from app.database.engine import Database
from app.database.leases import acquire_lease
from app.errors import UnavailableError
from app.imports.process import ImportProcess
from app.imports.runner import ImportRunner
from app.main import create_app
from app.settings import Settings, WorkerSettings
from tests.fixtures.waiting import wait_until
from tests.imports.uploads import HEADER, TABLES, KilledError, count

Ask = Callable[..., Any]
AssertProblem = Callable[..., dict[str, Any]]


def test_another_process_takes_over_what_one_left(
    post: Ask, ask: Ask, database: Database, import_runner: ImportRunner, kill: Ask
) -> None:
    import_id = post(HEADER + "".join(f"k{i},a,b,tie,{i}\n" for i in range(20))).json()["id"]
    kill(3, ImportRunner(database, lease_seconds=3).run_next, rows=4)
    assert 0 < count(database) < 20
    assert import_runner.run_next() is not None
    done = ask("GET", f"/imports/{import_id}").json()
    assert (done["state"], done["counts"]["created"], done["rows_done"]) == ("done", 20, 20)
    assert count(database) == 20


def test_what_kills_every_worker_is_not_begun_for_ever(
    post: Ask, ask: Ask, database: Database, import_runner: ImportRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dying(*_: Any, **__: Any) -> Any:
        raise KilledError

    content = HEADER + "k,a,b,tie,\n"
    import_id = post(content).json()["id"]
    with monkeypatch.context() as deadly:
        deadly.setattr("app.imports.reading.survey_file", dying)
        for _ in range(3):
            with pytest.raises(KilledError):
                import_runner.run_next()
            with database.begin() as conn:
                conn.execute(text("UPDATE leases SET expires_at = clock_timestamp()"))
            assert ask("GET", f"/imports/{import_id}").json()["state"] == "running"
        assert str(import_runner.run_next()) == import_id
    failed = ask("GET", f"/imports/{import_id}").json()
    assert failed["state"] == "failed"
    assert failed["detail"].startswith("reading it ended with its worker 3 times")
    assert "claims" not in failed["counts"]
    assert import_runner.run_next() is None
    assert [count(database, table) for table in TABLES] == [0, 1, 0, 0]
    assert post(content).json()["id"] != import_id  # sent again, it is tried again
    assert import_runner.run_next() is not None
    assert count(database) == 1


def test_an_import_that_gets_further_may_lose_any_number_of_workers(
    post: Ask, ask: Ask, database: Database, import_runner: ImportRunner, kill: Ask
) -> None:
    import_id = post(HEADER + "".join(f"k{i},a,b,tie,{i}\n" for i in range(14))).json()["id"]
    for _ in range(5):
        kill(2, ImportRunner(database, lease_seconds=30).run_next, rows=1)
    before = count(database)
    assert import_runner.run_next() is not None
    done = ask("GET", f"/imports/{import_id}").json()
    assert (done["state"], done["counts"]["created"]) == ("done", 14)
    assert 0 < before < 14


def test_a_worker_that_lost_the_database_has_not_died(
    post: Ask, database: Database, import_runner: ImportRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    post(HEADER + "k,a,b,tie,\n")

    def losing(*_: Any, **__: Any) -> Any:
        raise UnavailableError("the database is gone")

    with monkeypatch.context() as lost:
        lost.setattr("app.imports.reading.survey_file", losing)
        for _ in range(5):
            with pytest.raises(UnavailableError):
                import_runner.run_next()
            with database.begin() as conn:
                conn.execute(text("UPDATE leases SET expires_at = clock_timestamp()"))
    assert count(database) == 0
    assert import_runner.run_next() is not None
    assert count(database) == 1


def test_who_holds_the_lease_is_left_alone(post: Ask, database: Database, import_runner: ImportRunner) -> None:
    held = post(HEADER + "k,a,b,tie,\n").json()["id"]
    free = post(HEADER + "l,a,b,tie,\n").json()["id"]
    with database.begin() as conn:
        assert acquire_lease(conn, f"import:{held}", "another", 30)
    assert [str(import_runner.run_next()), import_runner.run_next()] == [free, None]


def test_a_stopped_runner_lets_go_and_the_next_goes_on(post: Ask, database: Database) -> None:
    post(HEADER + "k,a,b,tie,\n")
    stopped = ImportRunner(database, lease_seconds=30)
    stopped.stop()
    assert stopped.run_next() is None
    assert ImportRunner(database, lease_seconds=30).run_next() is not None
    assert count(database) == 1


@pytest.mark.campaign
def test_the_service_runs_imports_by_itself(
    settings: Settings, keys: dict[str, str], serving: Any, database: Database
) -> None:
    working = settings.model_copy(update={"worker": WorkerSettings()})
    headers = {"Authorization": f"Bearer {keys['ingest']}", "Content-Type": "text/csv"}
    with serving(create_app(working)) as url, Client(base_url=url, timeout=120) as client:
        posted = client.post("/api/v1/imports", content=(HEADER + "k,a,b,tie,\n").encode(), headers=headers)
        assert posted.status_code == 202
        wait_until(lambda: count(database) == 1)


def in_a_process(database: Database, memory_bytes: int | None = None) -> ImportRunner:
    process = ImportProcess(memory_bytes=memory_bytes, priority=0)
    return ImportRunner(database, lease_seconds=30, process=process)


@pytest.mark.campaign
def test_what_needs_too_much_memory_ends_its_process_alone(
    post: Ask, ask: Ask, database: Database, tmp_path: Path
) -> None:
    path = tmp_path / "v.parquet"
    votes = {"model_a": "a", "model_b": "b", "winner": "tie", "annotator": ["k" * (100 << 20)] + ["k"] * 200}
    pl.DataFrame(votes).write_parquet(path, statistics=False)
    large = post(path.read_bytes(), filename="v.parquet").json()["id"]
    small = post(HEADER + "k,a,b,tie,\n").json()["id"]
    runner = in_a_process(database, memory_bytes=450_000_000)
    while runner.run_next() is not None:
        pass
    failed, done = (ask("GET", f"/imports/{one}").json() for one in (large, small))
    assert (failed["state"], done["state"], count(database)) == ("failed", "done", 1)
    assert "memory" in failed["detail"]
    assert "smaller files" in failed["detail"]


def test_an_import_in_a_process_of_its_own_fails_by_the_same_words(post: Ask, ask: Ask, database: Database) -> None:
    runner = in_a_process(database)
    import_id = post(HEADER + "k,a,b,never,\n", filename="some.csv").json()["id"]
    runner.run_next()
    failed = ask("GET", f"/imports/{import_id}").json()
    assert (failed["state"], failed["n_faults"]) == ("failed", 1)
    assert failed["detail"].startswith("some.csv: 1 of 1 records are not valid votes; unknown verdicts: never 1 time (")


@pytest.mark.campaign
def test_a_stopped_runner_kills_the_process_that_reads(post: Ask, ask: Ask, database: Database) -> None:
    import_id = post(HEADER + "k,a,b,tie,\n").json()["id"]
    runner = in_a_process(database)
    reading = threading.Thread(target=runner.run_next)
    with database.begin() as lock:
        lock.execute(text("LOCK TABLE models IN ACCESS EXCLUSIVE MODE"))  # the child waits for this
        reading.start()
        wait_until(lambda: _waits_for_a_lock(database))
        runner.stop()
        reading.join(60)
        assert not reading.is_alive(), "it waits for its child"
    stopped = ask("GET", f"/imports/{import_id}").json()
    assert (stopped["state"], "claims" in stopped["counts"], count(database)) == ("running", False, 0)
    assert str(in_a_process(database).run_next()) == import_id
    assert count(database) == 1


def _waits_for_a_lock(database: Database) -> bool:
    with database.read() as conn:
        waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'models'::regclass")
        return bool(conn.execute(waiting).scalar_one())


KILLED = """
import sys, time
from app.database.engine import Database
from app.imports import reading, runner
def read_for_long(*_, **__):
    print("reading", flush=True)
    time.sleep(600)
reading.survey_file = read_for_long
with Database(sys.argv[1]) as database:
    runner.ImportRunner(database, lease_seconds=30).run_next()
"""


@pytest.mark.campaign
def test_a_killed_worker_leaves_no_copy_of_the_upload(
    client: Client, keys: dict[str, str], database_url: str, tmp_path: Path
) -> None:
    headers = {"Authorization": f"Bearer {keys['ingest']}", "Content-Type": "text/csv"}
    assert client.post("/api/v1/imports", content=(HEADER + "raw,a,b,tie,\n").encode(), headers=headers).is_success
    folder = tmp_path / "temporary"
    folder.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, database_url],
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "reading\n"
    process.kill()
    process.communicate()
    assert list(folder.rglob("*")) == []
