import json
from collections.abc import Callable
from typing import Any

import pytest

from app.audit.service import record
from app.database.engine import Database

RunCli = Callable[..., Any]


@pytest.fixture
def arena(on_database: None, database: Database) -> Database:
    """An arena with two entries in its audit log, which the commands are pointed at."""
    with database.begin() as conn:
        for i in range(2):
            record(conn, actor="ann", action="policy.set", subject=str(i), detail={"reason": "[b]=1"})
    return database


@pytest.mark.usefixtures("arena")
def test_list(run_cli: RunCli) -> None:
    listed = json.loads(run_cli("audit", "list", "--format", "json").stdout)["entries"]
    assert [entry["number"] for entry in listed] == [2, 1]
    table = run_cli("audit", "list").stdout
    assert "policy.set" in table
    assert "[b]=1" in table


def test_verify(arena: Database, run_cli: RunCli) -> None:
    result = run_cli("audit", "verify")
    assert result.exit_code == 0, result.stderr
    head = result.stdout.split()[-1]
    assert result.stdout.startswith("2 entries, all as written. Head: 2:")
    assert run_cli("audit", "verify", "--head", head).exit_code == 0
    with arena.begin() as conn:
        conn.exec_driver_sql("DELETE FROM audit_log WHERE number = 2")
    assert run_cli("audit", "verify").exit_code == 0
    cut = run_cli("audit", "verify", "--head", head)
    assert (cut.exit_code, cut.stdout) == (1, "")
    assert "the log ends at entry 1, but the noted head knows entry 2" in cut.stderr


@pytest.mark.usefixtures("arena", "crowd")
def test_a_published_snapshot_shows_that_the_end_was_cut_off(
    arena: Database, refit: Callable[..., Any], run_cli: RunCli
) -> None:
    with arena.begin() as conn:
        record(conn, actor="ann", action="policy.set", subject="9", detail={})
    refit()
    assert run_cli("audit", "verify").exit_code == 0
    with arena.begin() as conn:
        conn.exec_driver_sql("DELETE FROM audit_log WHERE number = (SELECT max(number) FROM audit_log)")
    cut = run_cli("audit", "verify")
    assert cut.exit_code == 1
    assert "but snapshot 1 knows entry" in cut.stderr


@pytest.mark.parametrize("head", ["2", "0:" + "0" * 64, "1:xyz", "1:" + "0" * 63])
def test_what_is_no_head(run_cli: RunCli, head: str) -> None:
    assert run_cli("audit", "verify", "--head", head).exit_code == 2


@pytest.mark.usefixtures("arena")
def test_an_empty_log(arena: Database, run_cli: RunCli) -> None:
    with arena.begin() as conn:
        conn.exec_driver_sql("DELETE FROM audit_log")
    assert run_cli("audit", "verify").stdout == "The audit log is empty.\n"
