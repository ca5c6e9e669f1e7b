"""Writes the database of this release to tests/backups/releases, once for each: `pytest tests/backups/release.py`.

Later releases restore it and go on from there (tests/backups/test_releases.py).
"""

from pathlib import Path

import pytest

import app
from app.backups.backup import write_backup
from app.database.engine import Database
from tests.fixtures.arena import Arena

RELEASES = Path(__file__).with_name("releases")


@pytest.mark.arena
def test_write_the_database_of_this_release(database: Database, arena: Arena) -> None:
    path, manifest = write_backup(database, RELEASES / f"{app.__version__}.zip")
    print(path, path.stat().st_size, manifest.revision)
