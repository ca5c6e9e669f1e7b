"""A standby of the database serves leaderboards, refuses writes, and takes them once it is promoted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from app.database.engine import Database
from app.main import create_app
from app.naming.known_names import Known
from app.refits.fit.process import FitProcess
from app.refits.runner import RefitRunner
from app.refits.service import request_refit
from app.settings import Settings
from app.votes.schemas import Vote
from app.votes.service import record_votes
from tests.deployment.parts import Part, Server
from tests.fixtures.crowds import SENDER, crowd_votes
from tests.fixtures.waiting import wait_until

READS = ("/leaderboard", "/leaderboard?format=csv", "/models", "/matchups", "/snapshots", "/policy", "/refits")
PAGES = ("/", "/models/model 1", "/history", "/method")
VOTE = {"model_a": "model 0", "model_b": "model 1", "winner": "tie", "annotator": "judge"}
WRITES = (("/votes", VOTE), ("/votes/batch", {"votes": [VOTE]}), ("/battles", {"annotator": "judge"}), ("/refits", {}))


def vote_and_publish(database: Database) -> int:
    """Record a crowd's votes and refit; return the number of the snapshot."""
    votes = [(Vote.model_validate(vote), SENDER) for vote in crowd_votes(honest=12, flip=2)]
    with database.begin() as conn:
        record_votes(conn, votes, Known())
        request_refit(conn, trigger="request", requested_by="a test")
    runner = RefitRunner(database, lease_seconds=30, process=FitProcess(), comparisons=False)
    assert runner.run_next(scheduled=False) is not None
    with database.read() as conn:
        return int(conn.exec_driver_sql("SELECT max(number) FROM snapshots").scalar_one())


@pytest.mark.campaign
def test_a_standby_serves_leaderboards(
    primary: Server,
    key: str,
    cluster_folder: Path,
    running: Callable[[Part], None],
    serving: Callable[..., Any],
    settings: Settings,
    assert_problem: Callable[..., Any],
) -> None:
    standby = Server("standby", cluster_folder / "standby")
    with Database(primary.url) as database:
        first = vote_and_publish(database)
        standby.copy(primary)
        running(standby)
        of_standby = settings.model_copy(update={"database_url": SecretStr(standby.url)})
        with (
            serving(create_app(of_standby)) as url,
            httpx.Client(base_url=url, timeout=60, headers={"Authorization": f"Bearer {key}"}) as client,
        ):

            def number() -> int:
                return int(client.get("/api/v1/leaderboard").json()["snapshot"]["number"])

            assert number() == first
            for path in (*PAGES, *(f"/api/v1{path}" for path in READS)):
                assert client.get(path).status_code == 200, path
            for path, body in WRITES:
                refused = client.post(f"/api/v1{path}", json=body)
                assert "standby" in assert_problem(refused, 503, "database-busy")["detail"]
            newest = vote_and_publish(database)
            assert newest > first
            wait_until(lambda: number() == newest)
            primary.kill()
            standby.promote()
            wait_until(lambda: client.post("/api/v1/votes", json=VOTE).status_code == 201)
