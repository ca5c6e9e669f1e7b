"""What tests of imports upload, and what then is stored."""

import threading
from collections.abc import Callable

import pytest
from sqlalchemy import text

from app.database.engine import Database

HEADER = "annotator,model_a,model_b,winner,battle_id\n"
TABLES = ("votes", "imports", "file_chunks", "leases")


def count(database: Database, table: str = "votes") -> int:
    with database.read() as conn:
        return int(conn.execute(text(f"SELECT count(*) FROM {table}")).scalar_one())


def wait_until(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(2000):
        if condition():
            return
        pause.wait(0.01)
    pytest.fail("the condition did not come true")
