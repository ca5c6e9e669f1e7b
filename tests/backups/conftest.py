from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from app.backups.backup import write_backup
from app.database.engine import Database
from app.database.tables import metadata
from tests.fixtures.database import new_database

Contents = dict[str, list[str]]
ReadContents = Callable[[Database], Contents]
Transactions = dict[str, dict[str, int]]
CountSeen = Callable[[Database], Transactions]

COUNTING = {"votes", "retracted_votes", "withdrawn_retractions", "model_merges", "decisions", "policies"}
"""The tables that say in which transaction a row was written."""


@pytest.fixture
def read_contents() -> ReadContents:
    """Read all rows of all tables as JSON, without what counts a cluster's transactions."""

    def read(database: Database) -> Contents:
        rows = "SELECT (to_jsonb(t) - 'recorded_in' - 'vote_set')::text FROM {} AS t ORDER BY 1"
        with database.read() as conn:
            return {
                name: list(conn.execute(text(rows.format(name))).scalars())
                for name in metadata.tables
                if name != "alembic_version"
            }

    return read


@pytest.fixture
def count_seen() -> CountSeen:
    """Count, for each vote set, the rows of each table that it saw."""

    def count(database: Database) -> Transactions:
        seen = "SELECT count(*) FROM {} WHERE pg_visible_in_snapshot(recorded_in, CAST(:vote_set AS pg_snapshot))"
        with database.read() as conn:
            sets = conn.execute(text("SELECT number, vote_set FROM snapshots ORDER BY 1")).all()
            return {
                table: {
                    str(number): conn.execute(text(seen.format(table)), {"vote_set": vote_set}).scalar_one()
                    for number, vote_set in sets
                }
                for table in COUNTING
            }

    return count


@pytest.fixture
def another_url(server_url: str) -> Iterator[str]:
    """A second database without any table."""
    with new_database(server_url) as url:
        yield url


@pytest.fixture
def another(another_url: str) -> Iterator[Database]:
    with Database(another_url) as opened:
        yield opened


@pytest.fixture
def backup_file(database: Database, tmp_path: Path) -> Path:
    """A backup of the test's database as it is when the test begins."""
    path, _ = write_backup(database, tmp_path / "backup.zip")
    return path
