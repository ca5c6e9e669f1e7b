"""A restore that is killed leaves the database as empty as before."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import text

from app.backups.backup import write_backup
from app.backups.restore import restore_backup
from app.database.engine import Database
from tests.fixtures.waiting import wait_until

VOTES = 300_000

_VOTES = """
    INSERT INTO votes (id, annotator_id, model_a_id, model_b_id, outcome, battle_id)
    SELECT gen_random_uuid(), n % 100, 1, 2, n % 3, 'b' || n FROM generate_series(1, :votes) AS n
"""
_LOADING = (
    "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'COPY \"votes\"%' AND state = 'active' AND datname = :n"
)


@pytest.mark.campaign
@pytest.mark.own_database
def test_a_killed_restore_leaves_nothing(database: Database, empty_database_url: str, tmp_path: Path) -> None:
    with database.begin() as conn:
        conn.execute(text(_VOTES), {"votes": VOTES})
    path, _ = write_backup(database, tmp_path / "backup.zip")
    command = [sys.executable, "-m", "app.cli", "restore", path, "--no-verify"]
    with Database(empty_database_url) as another:
        for _ in range(2):
            child = subprocess.Popen(command, env={**os.environ, "STABLE_ARENA_DATABASE_URL": empty_database_url})

            def loads(child: subprocess.Popen[bytes] = child) -> bool:
                assert child.poll() is None, "it ended before it was seen at work"
                with another.read() as conn:
                    return bool(conn.execute(text(_LOADING), {"n": another.url.database}).scalar_one())

            wait_until(loads)
            child.send_signal(signal.SIGKILL)
            child.wait()
            with another.read() as conn:
                assert conn.execute(text("SELECT to_regclass('votes')")).scalar_one() is None
        restore_backup(another, path)
        with another.read() as conn:
            assert conn.execute(text("SELECT count(*) FROM votes")).scalar_one() == VOTES
