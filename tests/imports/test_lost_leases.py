"""A worker that froze past its lease, or that an undone import outlived, changes nothing of what came meanwhile."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from app.database.engine import Database
from app.imports import reading
from app.imports.local import ImportReceipt, import_file
from app.imports.runner import ImportRunner
from app.imports.service import ImportOptions
from tests.fixtures.waiting import wait_until
from tests.imports.uploads import HEADER, count

Ask = Callable[..., Any]
ROWS = HEADER + "".join(f"k{i},a,b,tie,{i}\n" for i in range(20))


def time_passes(database: Database) -> None:
    with database.begin() as conn:
        conn.execute(text("UPDATE leases SET expires_at = clock_timestamp()"))


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("error", [None, MemoryError(), OSError(28, "No space left on device")])
def test_what_another_worker_finished_stays_finished(
    error: Exception | None,
    dry_run: bool,
    post: Ask,
    ask: Ask,
    database: Database,
    import_runner: ImportRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The file is deleted with the end of the import: the worker that wakes finds an empty one."""
    really, frozen = reading.read_chunks, ImportRunner(database, lease_seconds=30)

    def freeze(*arguments: Any) -> Any:
        monkeypatch.setattr(reading, "read_chunks", really)
        time_passes(database)
        assert str(import_runner.run_next()) == import_id
        finished.append(ask("GET", f"/imports/{import_id}").json())
        if error is not None:
            raise error
        return really(*arguments)

    finished: list[dict[str, Any]] = []
    import_id = post(ROWS, dry_run=dry_run).json()["id"]
    monkeypatch.setattr(reading, "read_chunks", freeze)
    frozen.run_next()
    assert (finished[0]["state"], finished[0]["counts"]["rows"]) == ("done", 20)
    assert ask("GET", f"/imports/{import_id}").json() == finished[0]
    assert count(database) == (0 if dry_run else 20)


def test_what_another_worker_goes_on_with_is_not_ended(
    post: Ask, ask: Ask, database: Database, import_runner: ImportRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def freeze(*_: Any) -> Any:
        time_passes(database)
        with database.begin() as conn:
            conn.execute(text("UPDATE leases SET epoch = epoch + 1, expires_at = now() + interval '1 minute'"))
        raise OSError(28, "No space left on device")

    import_id = post(ROWS).json()["id"]
    with monkeypatch.context() as freezing:
        freezing.setattr(reading, "read_chunks", freeze)
        import_runner.run_next()
    assert ask("GET", f"/imports/{import_id}").json()["state"] == "running"
    assert count(database, "file_chunks") == 1
    time_passes(database)
    assert str(import_runner.run_next()) == import_id
    assert count(database) == 20


def test_an_import_undone_while_its_file_is_checked_stays_ended(
    post: Ask, ask: Ask, database: Database, import_runner: ImportRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def undo(*arguments: Any, **options: Any) -> Any:
        survey = really(*arguments, **options)
        undone = ask("POST", "/retractions", json={"target": "import", "id": import_id, "reason": "the wrong file"})
        assert undone.status_code == 201, undone.text
        return survey

    really = reading.survey_file
    import_id = post(ROWS).json()["id"]
    monkeypatch.setattr(reading, "survey_file", undo)
    import_runner.run_next()
    assert ask("GET", f"/imports/{import_id}").json()["state"] == "failed"
    assert count(database) == 0


def test_a_command_waits_for_the_worker_that_is_about_to_finish(
    post: Ask, database: Database, kill: Ask, tmp_path: Path
) -> None:
    """Both look for an import of the file: what the command finds may end before it goes on with it."""
    post(ROWS)
    kill(3, ImportRunner(database, lease_seconds=3).run_next, rows=4)
    path, receipts = tmp_path / "votes.csv", list[ImportReceipt]()
    path.write_text(ROWS)
    command = threading.Thread(
        target=lambda: receipts.append(import_file(database, path, ImportOptions(), requested_by="a test"))
    )
    before = count(database)
    with database.begin() as worker:
        worker.execute(text("UPDATE imports SET state = 'done', finished_at = now(), rows_done = rows_total"))
        command.start()
        wait_until(lambda: _waits(database))
    command.join(60)
    assert receipts[0].already_imported
    assert 0 < before == count(database)


def _waits(database: Database) -> bool:
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%imports%'"
    with database.read() as conn:
        return bool(conn.execute(text(waiting)).scalar_one())
