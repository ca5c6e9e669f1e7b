"""An external PostgreSQL."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from app.auth.keys import create_key
from app.database.engine import Database
from app.database.schema import upgrade
from tests.deployment.parts import Part, Server

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
