"""The database is stopped: what was served before is still served, with its age and a warning; the rest says 503."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from httpx import Client
from pydantic import SecretStr

from app.database.embedded.server import EmbeddedServer
from app.database.schema import upgrade
from app.settings import DatabaseSettings, ServerSettings, Settings, WorkerSettings
from tests.fixtures.waiting import wait_until

pytestmark = pytest.mark.campaign

SERVED = (
    "/",
    "/embed",
    "/?sort=model",
    "/models/model 1",
    "/compare",
    "/matchups",
    "/history",
    "/method",
    "/governance",
    "/api/v1/leaderboard",
    "/api/v1/leaderboard?format=csv",
    "/api/v1/leaderboard?format=parquet",
    "/api/v1/leaderboard/arena-catalog",
    "/api/v1/governance",
    "/api/v1/matchups",
    "/api/v1/matchups?format=csv",
    "/api/v1/snapshots",
)
NEW = ("/compare?a=model 1&b=model 2", "/api/v1/leaderboard?limit=1", "/api/v1/matchups?model=model 1")


@pytest.fixture(scope="module")
def server(cluster_folder: Path) -> Iterator[EmbeddedServer]:
    server = EmbeddedServer(cluster_folder / "data")
    upgrade(server.start())
    yield server
    server.release()


@pytest.fixture
def service(server: EmbeddedServer, cluster_folder: Path, start_service: Callable[..., Any]) -> Iterator[Any]:
    settings = Settings(
        database_url=SecretStr(server.url),
        data_dir=cluster_folder,
        database=DatabaseSettings(pool_size=4, connect_timeout_seconds=1),
        worker=WorkerSettings(lease_seconds=2),
        server=ServerSettings(anonymous_requests_per_minute=6_000),
    )
    with start_service(server.url, settings) as service:
        yield service


def test_reads_go_on_without_the_database(service: Any, server: EmbeddedServer) -> None:
    keyed = {"Authorization": f"Bearer {service.key}"}
    encodings = ("identity", "gzip")
    vote = {"model_a": "model 0", "model_b": "model 1", "winner": "tie", "annotator": "judge"}
    with Client(base_url=service.url, timeout=60) as client:

        def read(path: str, encoding: str = "identity", **headers: str) -> Any:
            return client.get(path, headers={"Accept-Encoding": encoding, **headers})

        # The worker draws charts and measures the fragility after the refit: then every answer is another.
        wait_until(lambda: read("/api/v1/leaderboard").json()["models"][1]["tied"] is not None)
        wait_until(lambda: "<svg" in read("/method").text)
        before = {path: read(path) for path in SERVED}
        assert {answer.status_code for answer in before.values()} == {200}
        assert not any("warning" in answer.headers for answer in before.values())
        etag = before["/api/v1/leaderboard?format=csv"].headers["etag"]
        server.release()
        wait_until(lambda: client.get("/readyz").status_code == 503)
        for path in SERVED:
            for encoding in encodings:
                for headers in ({}, keyed, {"Authorization": "Bearer sa_unknown"}):
                    answer = read(path, encoding, **headers)
                    assert answer.status_code == 200, (path, answer.text)
                    assert answer.headers["warning"].startswith("110"), path
                    assert int(answer.headers["age"]) >= 0, path
                    if "html" not in answer.headers["content-type"] and path != "/api/v1/leaderboard":
                        assert answer.content == before[path].content, path
        board, first = read("/api/v1/leaderboard").json(), before["/api/v1/leaderboard"].json()
        assert board["stale"] is True
        assert board["age_seconds"] > first["age_seconds"]
        assert board["models"] == first["models"]
        assert "out of date" in read("/").text
        assert read("/api/v1/leaderboard?format=csv", **{"If-None-Match": etag}).status_code == 304
        for path in (*NEW, "/api/v1/models", "/console/keys"):
            refused = read(path, **keyed)
            assert refused.status_code in ({503} if path != "/console/keys" else {200, 303, 503}), path
        assert client.get("/api/v1/policy", headers=keyed).status_code == 503
        refused = client.post("/api/v1/votes", json=vote, headers=keyed)
        assert (refused.status_code, "retry-after" in refused.headers) == (503, True)

        server.start()
        wait_until(lambda: client.get("/readyz").status_code == 200)
        wait_until(lambda: "warning" not in read("/").headers)
        for path in (*SERVED, *NEW):
            answer = read(path)
            assert answer.status_code == 200, path
            assert "warning" not in answer.headers, path
