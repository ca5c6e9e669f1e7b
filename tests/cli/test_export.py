import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.database.engine import Database
from app.database.schema import upgrade
from app.leaderboard.service import choose_leaderboard, read_leaderboard

RunCli = Callable[..., Any]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Let commands work on this database."""
    monkeypatch.chdir(tmp_path)
    return lambda url: monkeypatch.setenv("STABLE_ARENA_DATABASE_URL", url)


@pytest.fixture
def second_database_url(empty_database_url: str) -> str:
    """Another migrated database of the test's own."""
    upgrade(empty_database_url)
    return empty_database_url


def board_of(url: str) -> list[dict[str, Any]]:
    with Database(url) as database, database.read() as conn:
        return read_leaderboard(conn, choose_leaderboard(conn)).rows()


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_votes_exported_and_imported_elsewhere_give_the_same_board(
    run_cli: RunCli, use: Callable[[str], None], vote_file: Path, database_url: str, second_database_url: str, form: str
) -> None:
    use(database_url)
    assert run_cli("import", vote_file).exit_code == 0
    result = run_cli("export", "votes", "--output", f"out.{form}")
    assert (result.exit_code, result.stdout) == (0, ""), result.stderr
    assert result.stderr.startswith("1,503 rows of votes; the recorded votes are ")
    assert run_cli("refit").exit_code == 0
    use(second_database_url)
    imported = json.loads(run_cli("import", f"out.{form}", "--format", "json").stdout)
    assert (imported["rows"], imported["created"]) == (1503, 1503)
    assert run_cli("refit").exit_code == 0
    first, second = board_of(database_url), board_of(second_database_url)
    assert [row["model"] for row in first] == [row["model"] for row in second]
    assert [row["score"] for row in first] == pytest.approx([row["score"] for row in second], abs=1e-6)
    assert {"=cat", "[red]dog"} <= {row["model"] for row in second}


def test_to_standard_output(run_cli: RunCli, use: Callable[[str], None], vote_file: Path, database_url: str) -> None:
    use(database_url)
    assert run_cli("import", vote_file).exit_code == 0
    lines = run_cli("export", "annotators").stdout.splitlines()
    assert len(lines) == 27
    assert lines[0].startswith("id,annotator,ability")
    models = [
        json.loads(line)
        for line in run_cli("export", "votes", "--format", "jsonl", "--model", "eel").stdout.splitlines()
    ]
    assert models
    assert all("eel" in (vote["model_a"], vote["model_b"]) for vote in models)
    assert run_cli("export", "votes", "--since", "2999-01-01").stdout.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("export", "secrets"), 2, "is not one of 'votes', 'annotators', 'leaderboard'"),
        (("export", "votes", "--since", "yesterday"), 2, "--since must be a time"),
        (("export", "votes", "--snapshot", "7"), 1, "7"),
        (("export", "leaderboard"), 1, "published"),
        (("export", "annotators", "--model", "ant"), 2, "model: not a filter of annotators"),
        (("export", "votes", "--method", "m-elo"), 2, "method: not a filter of votes"),
        (("export", "votes", "--output", "no/where.csv"), 2, "does not exist"),
        (("export", "votes", "--output", "b.xlsx"), 2, ".xlsx is none of the known endings .csv, .jsonl, .parquet"),
    ],
)
def test_what_cannot_be_exported(
    run_cli: RunCli,
    use: Callable[[str], None],
    database_url: str,
    arguments: tuple[str, ...],
    status: int,
    message: str,
) -> None:
    use(database_url)
    result = run_cli(*arguments)
    assert (result.exit_code, result.stdout) == (status, "")
    assert message in result.stderr
    assert not list(Path().iterdir())
