from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from sqlalchemy import text

from app.database.engine import Database
from app.imports import loading
from app.imports.formats import csv
from app.imports.runner import ImportRunner
from tests.imports.uploads import KilledError

Ask = Callable[..., Any]
Kill = Callable[..., None]


@pytest.fixture
def import_runner(database: Database) -> ImportRunner:
    return ImportRunner(database, lease_seconds=30)


@pytest.fixture
def rows_per_chunk(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Set how many rows of a CSV file are a chunk: small files have several chunks then."""
    monkeypatch.setattr(loading, "CHUNK_BYTES", 1)
    return lambda rows: monkeypatch.setattr(csv, "ROWS_PER_BATCH", rows)


@pytest.fixture
def kill(database: Database, monkeypatch: pytest.MonkeyPatch, rows_per_chunk: Callable[[int], None]) -> Kill:
    """Run an import of so many rows a chunk, and kill it in a chunk: nothing ends in order, and its leases run out."""

    def kill_in(chunk: int, work: Callable[[], object], *, rows: int) -> None:
        rows_per_chunk(rows)
        chunks, really = count(1), loading.load_votes

        def dying(*arguments: Any, **options: Any) -> Any:
            done = really(*arguments, **options)
            if next(chunks) == chunk:
                raise KilledError
            return done

        with monkeypatch.context() as deadly:
            deadly.setattr(loading, "load_votes", dying)
            with pytest.raises(KilledError):
                work()
        with database.begin() as conn:
            conn.execute(text("UPDATE leases SET expires_at = clock_timestamp()"))

    return kill_in


@pytest.fixture
def post(ask: Ask) -> Ask:
    """Post a file; what is not said is CSV."""

    def send(content: str | bytes, *, scope: str | None = "ingest", media_type: str = "text/csv", **params: Any) -> Any:
        body = content.encode() if isinstance(content, str) else content
        headers = {"Content-Type": media_type}
        return ask("POST", "/imports", scope=scope, content=body, headers=headers, params=params)

    return send
