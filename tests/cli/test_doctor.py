import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from app.database.engine import Database
from app.monitoring import doctor as room
from app.monitoring.checks import Check
from tests.fixtures.environment import Configure

RunCli = Callable[..., Any]
Examine = Callable[[], dict[str, Any]]


@pytest.fixture
def examine(run_cli: RunCli, database_url: str, configure: Configure) -> Examine:
    """Run the command; returns its exit code, and each check by its name."""
    configure(DATABASE_URL=database_url)

    def run() -> dict[str, Any]:
        result = run_cli("doctor", "--format", "json")
        found = json.loads(result.stdout)
        assert found["well"] == (result.exit_code == 0)
        return {"exit_code": result.exit_code} | {check["name"]: check for check in found["checks"]}

    return run


@pytest.mark.arena
def test_a_service_that_is_well(examine: Examine, run_cli: RunCli) -> None:
    found = examine()
    assert found["exit_code"] == 0
    assert {name for name, check in found.items() if name != "exit_code" and check["tone"] == "good"} >= {
        "Configuration", "Disk for uploads", "Database", "Clock", "Notices", "Schema",
        "Worker", "Last refit", "Annotators", "API keys",
    }  # fmt: skip
    assert found["Database"]["words"].startswith("PostgreSQL ")
    assert "flagged" in found["Annotators"]["words"]
    lines = run_cli("doctor").stdout.splitlines()
    assert any(line.startswith("ok     Schema") for line in lines)


def test_an_empty_service_wants_a_look_and_no_act(examine: Examine) -> None:
    found = examine()
    assert found["exit_code"] == 0
    assert found["Last refit"]["tone"] == "warn"
    assert found["Annotators"]["words"] == "None has voted yet."


def test_a_receiver_that_is_behind_is_named(examine: Examine, database: Database) -> None:
    with database.begin() as conn:
        conn.execute(
            text("""
                INSERT INTO webhooks (id, url, events, secret, created_by, paused_at)
                SELECT md5(host)::uuid, 'https://' || host || '/token', '{}', 'whsec_', 'a test', paused_at
                FROM (VALUES
                    ('Slow.example.org:8443', NULL), ('quick.example.org', NULL), ('paused.example.org', now())
                ) AS hooks (host, paused_at)
            """)
        )
        conn.execute(
            text("""
                INSERT INTO webhook_deliveries (id, webhook_id, event, payload, status, created_at)
                SELECT gen_random_uuid(), id, 'board.stale', '{}',
                    CASE WHEN url LIKE '%quick%' THEN 'delivered' ELSE 'waiting' END, now() - interval '5 minutes'
                FROM webhooks
            """)
        )
        webhook = conn.execute(text("SELECT id FROM webhooks WHERE url LIKE '%Slow%'")).scalar_one()
    check = examine()["Webhooks"]
    assert check["tone"] == "warn"
    assert check["words"].endswith(f" Behind: slow.example.org:8443 ({webhook}) by 5 minutes.")


def test_a_key_that_ends_soon(examine: Examine, database: Database) -> None:
    with database.begin() as conn:
        conn.execute(
            text("""
                INSERT INTO api_keys (id, name, prefix, secret_hash, scopes, expires_at, revoked_at) VALUES
                    (gen_random_uuid(), 'frontend', 'sa_a', '', '{ingest}', now() + interval '3 days', NULL),
                    (gen_random_uuid(), 'later', 'sa_b', '', '{ingest}', now() + interval '300 days', NULL),
                    (gen_random_uuid(), 'revoked', 'sa_c', '', '{ingest}', now() + interval '3 days', now())
            """)
        )
    found = examine()
    assert found["API keys"]["tone"] == "warn"
    assert found["API keys"]["words"] == "These end soon: frontend (sa_a) in 2 days."
    assert "keys rotate" in found["API keys"]["remedy"]


def test_filters_that_flag_most_annotators(examine: Examine, database: Database) -> None:
    with database.begin() as conn:
        conn.execute(
            text("""
                INSERT INTO annotators (public_id, key, rule_standing)
                SELECT gen_random_uuid(), 'k' || n, CASE WHEN n <= 8 THEN 'flagged' ELSE 'active' END
                FROM generate_series(1, 20) AS n
            """)
        )
    found = examine()["Annotators"]
    assert found["words"] == "40% of those rated are flagged or excluded. 12 active and 8 flagged."
    assert found["tone"] == "warn"
    assert found["remedy"]


def test_a_refit_that_failed_is_wrong(examine: Examine, database: Database, run_cli: RunCli) -> None:
    with database.begin() as conn:
        conn.execute(
            text("""
                INSERT INTO refits (id, state, trigger, requested_by, started_at, finished_at)
                VALUES (gen_random_uuid(), 'failed', 'request', 'a test', now(), now())
            """)
        )
    assert examine()["exit_code"] == 1
    shown = run_cli("doctor").stdout.splitlines()
    assert shown[0].startswith("WRONG  Last refit")
    assert "→ Open it" in shown[1]


def test_a_database_that_takes_no_writes(examine: Examine, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGOPTIONS", "-c default_transaction_read_only=on")
    found = examine()
    assert found["exit_code"] == 1
    assert "takes no writes" in found["Database"]["words"]


def test_notices_that_a_pooler_keeps(examine: Examine, configure: Configure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "notices_arrive", lambda _: False)
    assert examine()["Notices"]["tone"] == "warn"
    configure(DATABASE__TRANSACTION_POOLER="true")
    assert examine()["Notices"]["tone"] == "good"


def test_clocks_that_are_apart(examine: Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    now = room.time.time
    for behind, tone, words in ((10.9, "warn", "10 seconds apart"), (90.9, "bad", "1 minute apart")):
        monkeypatch.setattr(room.time, "time", lambda behind=behind: now() - behind)
        found = examine()["Clock"]
        assert (found["tone"], words in found["words"]) == (tone, True), found


def test_a_disk_that_is_full(examine: Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        total, free = 100 * 1024**3, 512 * 1024**2

    monkeypatch.setattr(room.shutil, "disk_usage", lambda _: Usage)
    found = examine()
    assert found["exit_code"] == 1
    assert found["Disk for uploads"]["words"].startswith("0.5 GiB are free")


def test_a_schema_of_another_version(run_cli: RunCli, empty_database_url: str, configure: Configure) -> None:
    configure(DATABASE_URL=empty_database_url)
    result = run_cli("doctor")
    assert result.exit_code == 1
    assert result.stdout.startswith("WRONG  Schema")
    assert "stable-arena migrate" in result.stdout


@pytest.mark.parametrize(
    ("variable", "value", "check", "words"),
    [
        ("DATABASE_URL", "postgresql://u:hunter2@127.0.0.1:1/x", "Database", "onnection failed"),
        ("SERVER__PORT", "70000", "Configuration", "STABLE_ARENA_SERVER__PORT"),
        ("SEVER__PORT", "80", "Configuration", "the nearest is STABLE_ARENA_SERVER__PORT"),
        ("DATA_DIR", "/nowhere/at/all", "Database", "here is no database yet"),
    ],
)
def test_what_cannot_be_opened(
    run_cli: RunCli, configure: Configure, variable: str, value: str, check: str, words: str
) -> None:
    configure(**{variable: value})
    result = run_cli("doctor", "--format", "json")
    wrong = [found for found in json.loads(result.stdout)["checks"] if found["tone"] == "bad"]
    assert result.exit_code == 1
    assert [found["name"] for found in wrong] == [check]
    assert words in wrong[0]["words"]
    assert wrong[0]["remedy"]
    assert "hunter2" not in result.output


def test_an_extra_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = room.check_extras({"dask": "no_such_module", "oidc": "json"})
    assert isinstance(found, Check)
    assert found.tone == "bad"
    assert found.remedy == "pip install 'stable-arena[dask]'"


def test_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    assert f"at {tmp_path}" in room.check_disk("Disk", tmp_path / "not" / "yet").words
