from collections.abc import Callable
from typing import Any

import pytest

from app.database.engine import Database
from app.imports.runner import ImportRunner

Ask = Callable[..., Any]


@pytest.fixture
def import_runner(database: Database) -> ImportRunner:
    return ImportRunner(database, lease_seconds=30, max_expanded_bytes=2 * 10**9)


@pytest.fixture
def post(ask: Ask) -> Ask:
    """Post a file; what is not said is CSV."""

    def send(content: str | bytes, *, scope: str | None = "ingest", media_type: str = "text/csv", **params: Any) -> Any:
        body = content.encode() if isinstance(content, str) else content
        headers = {"Content-Type": media_type}
        return ask("POST", "/imports", scope=scope, content=body, headers=headers, params=params)

    return send
