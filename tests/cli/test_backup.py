from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from app.database.engine import Database
from tests.fixtures.environment import Configure

RunCli = Callable[..., Any]
RELEASE = Path(__file__).parents[1] / "backups" / "releases" / "0.2.0.zip"


@pytest.mark.campaign
@pytest.mark.arena
def test_a_backup_moves_to_another_server(
    run_cli: RunCli, database_url: str, empty_database_url: str, tmp_path: Path, configure: Configure
) -> None:
    configure(DATABASE_URL=database_url)
    made = run_cli("backup", tmp_path)
    assert made.exit_code == 0, made.stderr
    (path,) = tmp_path.iterdir()
    assert made.stdout.startswith(f"{path}: ")
    before = run_cli("leaderboard", "--format", "json").stdout
    configure(DATABASE_URL=empty_database_url)
    restored = run_cli("restore", path)
    assert restored.exit_code == 0, restored.stderr
    assert restored.stdout.splitlines()[1].startswith("Snapshot 4, refitted from ")
    assert restored.stdout.endswith("has the same numbers.\n")
    after = run_cli("leaderboard", "--format", "json").stdout
    assert without_ages(after) == without_ages(before)
    again = run_cli("restore", path)
    assert again.exit_code == 1
    assert "holds data already" in again.stderr


def without_ages(leaderboard: str) -> list[str]:
    return [line for line in leaderboard.splitlines() if "age_seconds" not in line]


@pytest.mark.campaign
@pytest.mark.arena
def test_a_leaderboard_that_cannot_be_made_again_is_told(
    run_cli: RunCli,
    database: Database,
    database_url: str,
    empty_database_url: str,
    tmp_path: Path,
    configure: Configure,
) -> None:
    with database.begin() as conn:
        conn.execute(text("UPDATE snapshot_models SET score = score + 1 WHERE method = 'm-elo'"))
    configure(DATABASE_URL=database_url)
    assert run_cli("backup", tmp_path / "b.zip").exit_code == 0
    configure(DATABASE_URL=empty_database_url)
    restored = run_cli("restore", tmp_path / "b.zip")
    assert restored.exit_code == 1
    assert restored.stderr == (
        "error: all rows are restored, but snapshot 4 is not as published: they differ by up to 1\n"
    )


@pytest.mark.campaign
def test_an_embedded_database_moves_to_a_server(
    run_cli: RunCli, data_dir: Path, empty_database_url: str, tmp_path: Path, configure: Configure
) -> None:
    configure(DATA_DIR=data_dir)
    assert run_cli("models", "add", "ant").exit_code == 0
    made = run_cli("backup", tmp_path / "arena.zip")
    assert made.exit_code == 0, made.stderr
    configure(DATABASE_URL=empty_database_url)
    restored = run_cli("restore", tmp_path / "arena.zip")
    assert restored.exit_code == 0, restored.stderr
    assert restored.stdout.endswith("There is no snapshot to verify.\n")
    assert "ant" in run_cli("models", "list").stdout


def test_a_backup_of_another_method_is_restored_with_its_version_named(
    run_cli: RunCli, empty_database_url: str, configure: Configure
) -> None:
    configure(DATABASE_URL=empty_database_url)
    restored = run_cli("restore", RELEASE)
    assert (restored.exit_code, restored.stderr) == (0, "")
    assert "0.2.0" in restored.stdout.splitlines()[-1]


def test_where_there_is_nothing_to_back_up(run_cli: RunCli, tmp_path: Path, configure: Configure) -> None:
    configure(DATA_DIR=tmp_path / "none")
    refused = run_cli("backup", tmp_path / "b.zip")
    assert refused.exit_code == 2
    assert refused.stderr.startswith("error: there is no database yet in ")
    refused = run_cli("backup", tmp_path / "b.zip", "--keep", "3")
    assert (refused.exit_code, refused.stderr) == (
        2,
        f"error: --keep needs a folder that exists: {tmp_path / 'b.zip'} is none\n",
    )
    assert list(tmp_path.iterdir()) == []
