"""A worker that is stopped in the middle of an export leaves nothing of it, and the next one makes it."""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import polars as pl
import pytest
from sqlalchemy import Connection, text

from app.database.engine import Database
from app.exports import files as exports_files
from app.exports import runner as exports_runner
from app.exports.runner import ExportRunner
from app.settings import Settings
from app.worker import Worker
from tests.fixtures.waiting import wait_until

Ask = Callable[..., Any]
VOTE = {"model_a": "a", "model_b": "b", "winner": "tie", "annotator": "k"}


@pytest.fixture
def asked(ask: Ask) -> str:
    """An export of three votes that waits; returns its id."""
    for _ in range(3):
        ask("POST", "/votes", json=VOTE)
    return str(ask("POST", "/exports", json={"what": "votes", "format": "parquet"}).json()["id"])


def new_runner(database: Database) -> ExportRunner:
    return ExportRunner(database, lease_seconds=30, keep_days=7)


def chunks(database: Database) -> int:
    with database.read() as conn:
        return int(conn.execute(text("SELECT count(*) FROM file_chunks")).scalar_one())


def assert_made_later(ask: Ask, database: Database, export_id: str) -> None:
    """Check that an export waits, has left nothing, and is made by the next runner."""
    assert ask("GET", f"/exports/{export_id}").json()["state"] == "queued"
    assert chunks(database) == 0
    assert str(new_runner(database).run_next()) == export_id
    made = ask("GET", f"/exports/{export_id}").json()
    assert (made["state"], made["rows"]) == ("done", 3)


def test_a_query_that_takes_long_is_cancelled(ask: Ask, database: Database, settings: Settings, asked: str) -> None:
    worker = Worker(database, settings)
    exporting = threading.Thread(target=worker.run_files)
    with database.begin() as lock:
        lock.execute(text("LOCK TABLE votes IN ACCESS EXCLUSIVE MODE"))  # the export's query waits for this
        exporting.start()
        wait_until(lambda: _waits_for_a_lock(database))
        worker.stop()
        exporting.join(60)
        assert not exporting.is_alive(), "it waits for its query"
    assert_made_later(ask, database, asked)


def _waits_for_a_lock(database: Database) -> bool:
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%FROM votes%'"
    with database.read() as conn:
        return bool(conn.execute(text(waiting)).scalar_one())


def test_a_conversion_is_not_waited_for(
    ask: Ask, database: Database, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner, copy = new_runner(database), exports_files.store.copy_rows

    def stop_after(*arguments: Any) -> int:
        copied = copy(*arguments)
        runner.stop()
        return copied

    with monkeypatch.context() as stopping:
        stopping.setattr(exports_files.store, "copy_rows", stop_after)
        runner.run_next()
    assert_made_later(ask, database, asked)


INTERRUPTED = """
import sys
from pathlib import Path
from app.database.interruption import InterruptedWorkError, Interruption
from app.exports.files import _write_parquet
raw, typed = Path(sys.argv[1], "raw.csv"), Path(sys.argv[1], "typed.parquet")
raw.write_text("ability\\n" + "0.5\\n" * 1_000_000)
stopped = Interruption()
stopped.interrupt()
try:
    _write_parquet(raw, typed, stopped)
except InterruptedWorkError:
    print("interrupted")
_write_parquet(raw, typed, Interruption())  # takes as long as one that goes on in the background
"""


@pytest.mark.campaign
def test_an_interrupted_conversion_does_not_abort_the_process(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr
    assert pl.scan_parquet(tmp_path / "typed.parquet").select(pl.len()).collect().item() == 1_000_000


def test_what_was_stored_is_dropped(ask: Ask, database: Database, asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    runner, add = new_runner(database), exports_runner.add_chunk
    stored: list[int] = []

    def stop_after(conn: Connection, export_id: UUID, number: int, piece: bytes) -> None:
        add(conn, export_id, number, piece)
        stored.append(number)
        runner.stop()

    with monkeypatch.context() as stopping:
        stopping.setattr(exports_runner, "CHUNK_BYTES", 100)
        stopping.setattr(exports_runner, "add_chunk", stop_after)
        runner.run_next()
    assert stored == [0]
    assert_made_later(ask, database, asked)


def test_a_stopped_runner_begins_none(ask: Ask, database: Database, asked: str) -> None:
    runner = new_runner(database)
    runner.stop()
    assert runner.run_next() is None
    assert_made_later(ask, database, asked)


def test_a_conversion_that_fails_ends_the_export(
    ask: Ask, database: Database, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pl.LazyFrame, "sink_parquet", full)
    new_runner(database).run_next()
    ended = ask("GET", f"/exports/{asked}").json()
    assert (ended["state"], "No space left" in ended["detail"], chunks(database)) == ("failed", True, 0)


def test_one_who_took_the_export_over_is_left_alone(
    ask: Ask, database: Database, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen, write = new_runner(database), exports_runner.write_export

    def freeze(*arguments: Any) -> Any:
        with database.begin() as conn:
            conn.execute(text("UPDATE leases SET epoch = epoch + 1 WHERE name LIKE 'export:%'"))
        frozen.stop()
        return write(*arguments)

    monkeypatch.setattr(exports_runner, "write_export", freeze)
    frozen.run_next()
    assert ask("GET", f"/exports/{asked}").json()["state"] == "running"


def test_the_file_of_one_who_took_the_export_over_stays(
    ask: Ask, database: Database, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that froze may fail when it wakes, as where its disk is full."""
    frozen, write = new_runner(database), exports_runner.write_export

    def freeze(*_: Any) -> Any:
        monkeypatch.setattr(exports_runner, "write_export", write)
        with database.begin() as conn:
            conn.execute(text("UPDATE leases SET expires_at = clock_timestamp()"))  # time passes
        assert str(new_runner(database).run_next()) == asked
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(exports_runner, "write_export", freeze)
    frozen.run_next()
    assert ask("GET", f"/exports/{asked}").json()["state"] == "done"
    assert ask("GET", f"/exports/{asked}/file").status_code == 200
    assert chunks(database) == 1
