"""A database that was backed up and restored is the same, and means the same."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from app.audit.service import verify_log
from app.backups.archive import ArchiveWriter, open_archive
from app.backups.backup import write_backup
from app.backups.restore import refit_newest, restore_backup
from app.database.engine import Database
from app.database.schema import require_current
from app.database.tables import metadata
from app.models.merges import merge_model
from app.models.schemas import Merge
from app.models.service import find_model
from app.refits.reproduce import reproduce
from app.refits.schedule import due_trigger
from app.snapshots.queries import newest_snapshot
from app.snapshots.vote_sets import anything_new_since, holds_foreign_rows, new_votes_since

ELSEWHERE = 4_000_000_000

_FROM_ELSEWHERE = """
    UPDATE {table} SET recorded_in = (recorded_in::text::bigint + {more})::text::xid8
"""


def come_from_elsewhere(database: Database) -> None:
    """Let the rows and vote sets be those of a cluster that has run for long."""
    with database.begin() as conn:
        for table in (name for name, table in metadata.tables.items() if "recorded_in" in table.c):
            conn.execute(text(_FROM_ELSEWHERE.format(table=table, more=ELSEWHERE)))
        for number, vote_set in conn.execute(text("SELECT number, vote_set FROM snapshots")).all():
            first, end, running = vote_set.split(":")
            moved = [str(int(x) + ELSEWHERE) for x in (first, end)]
            moved.append(",".join(str(int(x) + ELSEWHERE) for x in running.split(",") if x))
            conn.execute(
                text("UPDATE snapshots SET vote_set = :new WHERE number = :number"),
                {"new": ":".join(moved), "number": number},
            )


@pytest.mark.arena
def test_everything_is_there_again(
    database: Database,
    another: Database,
    backup_file: Path,
    read_contents: Callable[[Database], Any],
    count_seen: Callable[[Database], Any],
) -> None:
    before = read_contents(database)
    restore_backup(another, backup_file)
    require_current(another)
    assert read_contents(another) == before
    assert count_seen(another) == count_seen(database)
    with another.read() as conn:
        assert verify_log(conn).entries > 0
    with open_archive(backup_file) as archive:
        assert {table.name for table in archive.manifest.tables} == metadata.tables.keys()
    assert backup_file.stat().st_mode & 0o777 == 0o600


@pytest.mark.arena
def test_the_board_tells_the_truth_in_a_younger_cluster(
    database: Database, another: Database, tmp_path: Path, count_seen: Callable[[Database], Any]
) -> None:
    come_from_elsewhere(database)
    path, _ = write_backup(database, tmp_path)
    restore_backup(another, path)
    assert count_seen(another) == count_seen(database)
    with another.read() as conn:
        newest = newest_snapshot(conn)
        assert newest is not None
        assert not holds_foreign_rows(conn)
        assert new_votes_since(conn, newest["vote_set"]) == 0
        assert not anything_new_since(conn, newest["vote_set"])
        assert not due_trigger(conn)
    for number in ("1", "4"):
        assert reproduce(another, number).largest_difference == 0.0


@pytest.mark.arena
def test_new_votes_are_new_after_a_restore(database: Database, another: Database, backup_file: Path) -> None:
    restore_backup(another, backup_file)
    with another.read() as conn:
        before = newest_snapshot(conn)
    assert before is not None
    one = """
        INSERT INTO votes (id, annotator_id, model_a_id, model_b_id, outcome) VALUES (gen_random_uuid(), 1, 1, 2, 0);
        INSERT INTO models (name) VALUES ('made after the restore')
    """
    with another.begin() as conn:
        conn.execute(text(one))
    with another.read() as conn:
        assert new_votes_since(conn, before["vote_set"]) == 1


def test_votes_that_came_beside_a_refit_stay_new(
    database: Database, another: Database, stored_crowd: None, run_refit: Callable[..., Any], tmp_path: Path
) -> None:
    vote = (
        "INSERT INTO votes (id, annotator_id, model_a_id, model_b_id, outcome) VALUES (gen_random_uuid(), 1, 1, 2, 0)"
    )
    with database.begin() as late:
        late.execute(text(vote))
        with database.begin() as conn:
            conn.execute(text("UPDATE models SET link = 'a later transaction'"))
        run_refit()
    path, _ = write_backup(database, tmp_path)
    restore_backup(another, path)
    with another.read() as conn:
        newest = newest_snapshot(conn)
        assert newest is not None
        assert new_votes_since(conn, newest["vote_set"]) == 1
    made = refit_newest(another)
    assert made is not None
    assert made.reproduced


def test_snapshots_before_and_after_a_merge_are_made_again(
    database: Database, another: Database, stored_crowd: None, run_refit: Callable[..., Any], tmp_path: Path
) -> None:
    run_refit()
    with database.begin() as conn:
        merge_model(conn, "model 0", Merge(into="model 1"), merged_by="a test")
    run_refit()
    come_from_elsewhere(database)
    path, _ = write_backup(database, tmp_path)
    restore_backup(another, path)
    with another.read() as conn:
        assert not due_trigger(conn)
        assert find_model(conn, "model 0").merged_into == "model 1"
    for number in ("1", "2"):
        made = reproduce(another, number)
        assert (made.same_votes, made.largest_difference) == (True, 0.0), made.differences
    with another.read() as conn:
        models = text("SELECT count(*) FROM snapshot_models JOIN snapshots ON id = snapshot_id GROUP BY number, method")
        assert set(conn.execute(models).scalars()) == {6, 5}


def test_a_backup_under_traffic_is_of_one_moment(
    database: Database, another: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, ended = threading.Semaphore(0), threading.Event()

    def write() -> None:
        number = 0
        while not ended.is_set():
            number += 1
            with database.begin() as conn:
                conn.execute(text("INSERT INTO models (name) VALUES (:name)"), {"name": f"m{number}"})
                values = "(gen_random_uuid(), :name)"
                conn.execute(text(f"INSERT INTO annotators (public_id, key) VALUES {values}"), {"name": f"a{number}"})
            written.release()

    add_table = ArchiveWriter.add_table

    def add_later(self: ArchiveWriter, *arguments: Any) -> Any:
        for _ in range(2):  # one may have been under way
            assert written.acquire(timeout=30)
        return add_table(self, *arguments)

    monkeypatch.setattr(ArchiveWriter, "add_table", add_later)
    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert written.acquire(timeout=30)
        path, manifest = write_backup(database, tmp_path)
    finally:
        ended.set()
        writer.join()
    restore_backup(another, path)
    rows = {table.name: table.rows for table in manifest.tables}
    counts = [text(f"SELECT count(*) FROM {name}") for name in ("models", "annotators")]
    with database.read() as here, another.read() as there:
        assert rows["models"] == rows["annotators"] < here.execute(counts[0]).scalar_one()
        assert [there.execute(count).scalar_one() for count in counts] == [rows["models"]] * 2
