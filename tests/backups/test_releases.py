"""The databases of earlier releases come to this version's schema, with the same leaderboard and the same rules."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from httpx import Client
from pydantic import SecretStr

from app.audit.service import verify_log
from app.auth.keys import create_key
from app.backups.restore import refit_newest, restore_backup
from app.database.engine import Database
from app.database.schema import require_current
from app.main import create_app
from app.settings import Settings

RELEASES = sorted(Path(__file__).with_name("releases").glob("*.zip"))


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.stem)
def test_a_release_before_goes_on_with_this_version(
    release: Path, another: Database, another_url: str, settings: Settings, serving: Callable[..., Any]
) -> None:
    restore_backup(another, release)
    require_current(another)
    made = refit_newest(another)
    assert made is not None
    assert made.same_votes
    with another.begin() as conn:
        assert verify_log(conn).entries > 0
        key = create_key(conn, "after the upgrade", ["admin", "ingest"])[1]
    app = create_app(settings.model_copy(update={"database_url": SecretStr(another_url)}))
    headers = {"Authorization": f"Bearer {key}"}
    with serving(app) as address, Client(base_url=f"{address}/api/v1", headers=headers, timeout=120) as client:
        leaderboard = client.get("/leaderboard").json()
        assert leaderboard["votes_not_in_board"] == 0
        assert len(leaderboard["models"]) > 10
        flagged = client.get("/annotators", params={"standing": "flagged"}).json()
        assert flagged["items"]
        vote = {"model_a": "Meridian 4", "model_b": "Lumen 2", "winner": "model_a", "annotator": "someone new"}
        assert client.post("/votes", json=vote).status_code == 201
        assert client.post("/refits", json={}).status_code == 202


def test_there_is_a_release_to_come_from() -> None:
    assert RELEASES
