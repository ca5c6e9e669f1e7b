import json
from collections.abc import Callable

import pytest
from httpx import Client
from typer.testing import Result

from app.database.engine import Database

RunCli = Callable[..., Result]


def test_battles_are_listed_and_shown(
    client: Client, keys: dict[str, str], database: Database, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STABLE_ARENA_DATABASE_URL", database.url.render_as_string(hide_password=False))
    admin, ingest = ({"Authorization": f"Bearer {keys[scope]}"} for scope in ("admin", "ingest"))
    for name in ("ant", "[red]dog"):
        assert client.post("/api/v1/models", json={"name": name}, headers=admin).status_code == 201
    drawn = [
        client.post("/api/v1/battles", json={"annotator": key}, headers=ingest).json() for key in ("ann", "ann", "bob")
    ]
    client.post(f"/api/v1/battles/{drawn[0]['battle_id']}/skip", json={"reason": "failed"}, headers=ingest)
    listed = json.loads(run_cli("battles", "list", "--annotator", "ann", "--format", "json").stdout)["battles"]
    assert [one["battle_id"] for one in listed] == [drawn[1]["battle_id"], drawn[0]["battle_id"]]
    table = run_cli("battles", "list", "--state", "skipped").stdout
    assert drawn[0]["battle_id"] in table
    assert "failed" in table
    assert drawn[1]["battle_id"] not in table
    shown = run_cli("battles", "show", drawn[2]["battle_id"])
    assert "[red]dog, ant" in shown.stdout, "the names of the candidates; names are no markup"
    assert drawn[2]["token"] not in shown.stdout
    assert json.loads(run_cli("battles", "show", drawn[2]["battle_id"], "--format", "json").stdout)["state"] == "open"
    assert len(run_cli("battles", "list", "--limit", "1").stdout.splitlines()) == 2  # its head, and the newest
    unknown = run_cli("battles", "list", "--annotator", "eve")
    assert (unknown.exit_code, "there is no annotator" in unknown.stderr) == (1, True)
