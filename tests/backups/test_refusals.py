"""What a restore refuses, and that it leaves the database as it was."""

import json
import zipfile
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import pytest
from sqlalchemy import text
from typer.testing import CliRunner

from app.backups.archive import DamagedBackupError, open_archive
from app.backups.backup import drop_old_backups, write_backup
from app.backups.restore import DatabaseNotEmptyError, ServerOccupiedError, restore_backup
from app.cli.command import application
from app.database.engine import Database
from app.database.opening import open_database
from app.database.schema import SchemaBehindError, downgrade, require_current, upgrade
from app.errors import BadInputError
from tests.fixtures.environment import Configure
from tests.fixtures.errors import naming


def rewrite(path: Path, change: Callable[[str, bytes], bytes | None]) -> Path:
    """Write the zip anew with other members."""
    changed = path.with_name("changed.zip")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(changed, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            content = change(name, old.read(name))
            if content is not None:
                new.writestr(name, content)
    return changed


def change_manifest(path: Path, **values: object) -> Path:
    def change(name: str, content: bytes) -> bytes:
        return json.dumps({**json.loads(content), **values}).encode() if name == "manifest.json" else content

    return rewrite(path, change)


def assert_empty(database: Database) -> None:
    with database.read() as conn:
        assert conn.execute(text("SELECT to_regclass('votes')")).scalar_one() is None


@pytest.fixture
def some_rows(database: Database) -> None:
    with database.begin() as conn:
        conn.execute(text("INSERT INTO models (name) SELECT 'model ' || n FROM generate_series(1, 500) AS n"))


@pytest.mark.usefixtures("some_rows")
def test_damaged_files_change_nothing(backup_file: Path, another: Database) -> None:
    content = backup_file.read_bytes()
    models = content.index(b"tables/models.tsv") + 40
    flipped = bytearray(content)
    flipped[models] ^= 0x10
    damaged = {
        "cut": content[: len(content) // 2],
        "flipped": bytes(flipped),
        "empty": b"",
        "other": b"not a zip at all" * 100,
    }
    for name, other in damaged.items():
        path = backup_file.with_name(f"{name}.zip")
        path.write_bytes(other)
        with pytest.raises(DamagedBackupError):
            restore_backup(another, path)
        assert_empty(another)


@pytest.mark.usefixtures("some_rows")
def test_one_damaged_byte_anywhere(backup_file: Path) -> None:
    content = backup_file.read_bytes()
    damaged = backup_file.with_name("damaged.zip")
    refused = 0
    for place, bit in zip(range(0, len(content), 61), cycle((1, 8, 128)), strict=False):
        damaged.write_bytes(content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :])
        try:
            with open_archive(damaged) as archive:
                archive.check()
        except DamagedBackupError:
            refused += 1
    assert refused > 30


@pytest.mark.usefixtures("some_rows")
@pytest.mark.parametrize(
    ("offset", "bit"),
    [
        (8, 1),  # says that the manifest is encrypted
        (10, 14),  # says that it is compressed with LZMA
        (45, 128),  # says that it begins after the end of the file
    ],
)
def test_a_damaged_directory_is_bad_input(
    backup_file: Path, another: Database, another_url: str, configure: Configure, offset: int, bit: int
) -> None:
    content = bytearray(backup_file.read_bytes())
    content[content.rindex(b"PK\x01\x02") + offset] ^= bit
    backup_file.write_bytes(content)
    configure(DATABASE_URL=another_url)
    done = CliRunner().invoke(application, ["restore", str(backup_file)])
    assert (done.exit_code, "is not a backup, or is damaged" in done.stderr) == (2, True)
    assert_empty(another)


@pytest.mark.usefixtures("some_rows")
@pytest.mark.parametrize("member", ["tables/models.tsv", "manifest.json"])
def test_a_part_is_missing(backup_file: Path, another: Database, member: str) -> None:
    path = rewrite(backup_file, lambda name, content: None if name == member else content)
    with pytest.raises(DamagedBackupError):
        restore_backup(another, path)
    assert_empty(another)


@pytest.mark.usefixtures("some_rows")
def test_rows_that_were_changed_by_hand(backup_file: Path, another: Database) -> None:
    path = rewrite(backup_file, lambda _, content: content.replace(b"model 499", b"model 999"))
    with pytest.raises(DamagedBackupError, check=naming("models")):
        restore_backup(another, path)
    assert_empty(another)


def test_a_backup_of_a_newer_version(backup_file: Path, another: Database) -> None:
    path = change_manifest(backup_file, revision="9999", version="12.0")
    with pytest.raises(BadInputError, check=naming("12.0", "9999")):
        restore_backup(another, path)
    with pytest.raises(BadInputError, check=naming("layout 2")):
        restore_backup(another, change_manifest(backup_file, layout=2))
    assert_empty(another)


def test_a_schema_of_other_tables(backup_file: Path, another: Database) -> None:
    path = change_manifest(backup_file, revision="0004")
    with pytest.raises(DamagedBackupError, check=naming("0004")):
        restore_backup(another, path)
    assert_empty(another)


@pytest.mark.usefixtures("some_rows")
def test_a_database_with_data_is_refused(database: Database, backup_file: Path) -> None:
    with pytest.raises(DatabaseNotEmptyError, check=naming("models")):
        restore_backup(database, backup_file)


def test_a_database_of_another_program_is_refused(backup_file: Path, another: Database) -> None:
    with another.begin() as conn:
        conn.execute(text("CREATE TABLE invoices (id int)"))
    with pytest.raises(DatabaseNotEmptyError, check=naming("invoices")):
        restore_backup(another, backup_file)


@pytest.mark.usefixtures("some_rows")
def test_a_database_that_a_service_was_started_on_will_do(
    backup_file: Path, another: Database, another_url: str
) -> None:
    upgrade(another_url)
    with another.begin() as conn:
        conn.execute(text("INSERT INTO service_secrets (name, secret) VALUES ('made up', '\\x00')"))
    restore_backup(another, backup_file)
    with another.read() as conn:
        assert conn.execute(text("SELECT count(*) FROM models")).scalar_one() == 500
        assert conn.execute(text("SELECT count(*) FROM service_secrets WHERE name = 'made up'")).scalar_one() == 0


@pytest.mark.own_database
def test_an_earlier_schema_is_restored_and_brought_forward(
    database: Database, database_url: str, another: Database, tmp_path: Path
) -> None:
    with database.begin() as conn:
        conn.execute(text("INSERT INTO models (name) VALUES ('a'), ('b')"))
    downgrade(database_url, "0004")
    path, manifest = write_backup(database, tmp_path)
    assert manifest.revision == "0004"
    restore_backup(another, path)
    require_current(another)
    with another.begin() as conn:
        assert conn.execute(text("SELECT name FROM models ORDER BY id")).scalars().all() == ["a", "b"]
        assert conn.execute(text("INSERT INTO models (name) VALUES ('c') RETURNING id")).scalar_one() == 3


def test_an_empty_database_has_nothing_to_back_up(another: Database, tmp_path: Path) -> None:
    with pytest.raises(SchemaBehindError):
        write_backup(another, tmp_path / "backup.zip")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_never_replaced(database: Database, backup_file: Path, tmp_path: Path) -> None:
    before = backup_file.read_bytes()
    for target in (backup_file, tmp_path / "nowhere" / "backup.zip"):
        with pytest.raises(BadInputError):
            write_backup(database, target)
    assert backup_file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [backup_file]


def test_the_newest_backups_of_a_folder_stay(tmp_path: Path) -> None:
    names = [f"stable-arena-2026112{day}T000000Z.zip" for day in range(5)]
    for name in [*names, "mine.zip"]:
        (tmp_path / name).touch()
    assert sorted(path.name for path in drop_old_backups(tmp_path, 2)) == names[:3]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.zip", *names[3:]]


def newest_transaction(database: Database) -> int:
    with database.read() as conn:
        return int(conn.execute(text("SELECT pg_snapshot_xmax(pg_current_snapshot())::text")).scalar_one())


@pytest.mark.campaign
def test_a_young_cluster_is_brought_past_the_numbers_of_the_backup(backup_file: Path, data_dir: Path) -> None:
    # A cluster of its own: on a shared server the transactions of other tests are open meanwhile.
    with open_database(None, data_dir) as another:
        needed = newest_transaction(another) + 2_000
        restore_backup(another, change_manifest(backup_file, numbers=needed))
        assert newest_transaction(another) > needed
        with pytest.raises(DamagedBackupError):
            restore_backup(another, change_manifest(backup_file, numbers=10**12))


def test_an_old_transaction_on_the_server_is_named(database: Database, backup_file: Path, another: Database) -> None:
    needed = newest_transaction(another) + 10
    with database.begin() as old:
        old.execute(text("SELECT pg_current_xact_id()"))
        with pytest.raises(ServerOccupiedError):
            restore_backup(another, change_manifest(backup_file, numbers=needed))
    assert_empty(another)
