import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi import FastAPI
from httpx import Client
from sqlalchemy import Connection, event, text

from app.database.engine import Database
from app.database.schema import SchemaBehindError
from app.main import create_app
from app.monitoring.cache import Readiness
from app.settings import Settings

Ask = Callable[..., Any]


def test_alive_and_ready(client: Client) -> None:
    for path in ("/healthz", "/readyz"):
        response = client.get(path)
        assert (response.status_code, response.json()) == (200, {"status": "ok"})


def test_another_schema_is_alive_but_not_ready(client: Client, database: Database, assert_problem: Ask) -> None:
    with database.begin() as conn:
        conn.execute(text("UPDATE alembic_version SET version_num = '0000'"))
    assert_problem(client.get("/readyz"), 503, "schema-behind")
    assert client.get("/healthz").status_code == 200


@pytest.mark.own_database
def test_without_a_database_alive_but_not_ready(
    client: Client, closed_database: Ask, keys: dict[str, str], assert_problem: Ask
) -> None:
    vote = {"model_a": "a", "model_b": "b", "winner": "tie", "annotator": "k"}
    headers = {"Authorization": f"Bearer {keys['ingest']}"}
    with closed_database():
        for path in ("/readyz", "/api/v1/leaderboard"):
            said = assert_problem(client.get(path), 503, "database-unreachable")
            assert said["detail"] == "the service's log has the reason"  # it names the database
        assert_problem(client.post("/api/v1/votes", json=vote, headers=headers), 503, "database-unreachable")
        assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code == 200
    assert client.post("/api/v1/votes", json=vote, headers=headers).status_code == 201


@pytest.mark.own_database
def test_a_database_that_is_closed_to_writes(
    settings: Settings,
    database: Database,
    keys: dict[str, str],
    serving: Callable[[FastAPI], Any],
    assert_problem: Ask,
) -> None:
    with database.begin() as conn:
        conn.execute(text(f"ALTER DATABASE {database.url.database} SET default_transaction_read_only = on"))
    votes = {"votes": [{"model_a": "a", "model_b": "b", "winner": "tie", "annotator": "k"}]}
    headers = {"Authorization": f"Bearer {keys['ingest']}"}
    with serving(create_app(settings)) as url, Client(base_url=url, timeout=120) as client:
        for _ in range(3):  # with connections, too, that were read from before
            assert client.get("/readyz").status_code == 200
            assert client.get("/api/v1/leaderboard").status_code == 404
            for path, body in (("/votes/batch", votes), ("/votes", votes["votes"][0])):
                refused = client.post(f"/api/v1{path}", json=body, headers=headers)
                assert "read-only" in assert_problem(refused, 503, "database-busy")["detail"]


def test_more_requests_than_connections_are_served(
    settings: Settings, keys: dict[str, str], serving: Callable[[FastAPI], Any]
) -> None:
    """Requests that wait for a connection hold no thread that one with a connection needs."""
    narrow = settings.model_copy(update={"database": settings.database.model_copy(update={"pool_size": 1})})
    batch = {"votes": [{"model_a": "a", "model_b": "b", "winner": "tie", "annotator": f"k{i}"} for i in range(20)]}
    headers = {"Authorization": f"Bearer {keys['ingest']}"}

    def send(_: int) -> int:
        return client.post("/api/v1/votes/batch", json=batch, headers=headers).status_code

    with (
        serving(create_app(narrow)) as url,
        Client(base_url=url, timeout=120) as client,
        ThreadPoolExecutor(60) as pool,
    ):
        assert set(pool.map(send, range(120))) == {200}


def test_probes_share_a_look_at_the_database(database: Database) -> None:
    looks = []

    def look(conn: Connection) -> None:
        looks.append(conn)

    event.listen(database.engine, "begin", look)

    async def probe(readiness: Readiness) -> None:
        await asyncio.gather(*(readiness.require() for _ in range(20)))
        await readiness.require()

    try:
        asyncio.run(probe(Readiness(database, keep_seconds=3600)))
        assert len(looks) == 1
        with database.begin() as conn:
            conn.execute(text("UPDATE alembic_version SET version_num = '0000'"))
        for _ in range(2):
            looks.clear()
            with pytest.raises(SchemaBehindError):
                asyncio.run(probe(Readiness(database)))
            assert len(looks) == 1, "a failure is not kept"
    finally:
        event.remove(database.engine, "begin", look)
