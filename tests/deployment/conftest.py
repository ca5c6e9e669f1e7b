"""Deployments of several processes on an external PostgreSQL."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from app.auth.keys import create_key
from app.database.engine import Database
from app.database.schema import upgrade
from tests.deployment.parts import Command, Part, Server
from tests.fixtures.crowds import crowd_votes
from tests.fixtures.waiting import free_port

Start = Callable[[Part], None]


@pytest.fixture
def running() -> Iterator[Start]:
    """Start a part, which is stopped after the test."""
    with ExitStack() as stops:

        def start(part: Part) -> None:
            stops.callback(part.release)
            part.start()

        yield start


@pytest.fixture
def primary(cluster_folder: Path, running: Start) -> Server:
    """A running server with the schema."""
    server = Server("primary", cluster_folder / "primary")
    server.make()
    running(server)
    upgrade(server.url)
    return server


@pytest.fixture
def key(primary: Server) -> str:
    """A key that may do everything these tests do."""
    with Database(primary.url) as database, database.begin() as conn:
        return create_key(conn, "tests", ["admin", "ingest", "read"])[1]


@pytest.fixture
def apis(primary: Server, key: str, cluster_folder: Path, running: Start) -> list[Command]:
    """Two API servers; a crowd has voted."""
    apis = [
        Command(f"api-{port}", cluster_folder, primary.url, "serve", "--no-worker", port=port)
        for port in (free_port(), free_port())
    ]
    for api in apis:
        running(api)
    votes = list(crowd_votes(votes_each=60, honest=12, flip=2))
    headers = {"Authorization": f"Bearer {key}"}
    taken = httpx.post(f"{apis[0].address}/api/v1/votes/batch", json={"votes": votes}, headers=headers, timeout=60)
    assert taken.json()["counts"]["created"] == len(votes)
    return apis


@pytest.fixture
def workers(primary: Server, apis: list[Command], cluster_folder: Path, running: Start) -> list[Command]:
    """Two workers."""
    workers = [Command(f"worker-{number}", cluster_folder, primary.url, "worker") for number in range(2)]
    for worker in workers:
        running(worker)
    return workers
