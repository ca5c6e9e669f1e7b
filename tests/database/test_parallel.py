import threading
from unittest.mock import ANY

import psycopg
import pytest
from sqlalchemy import text

from app.database import parallel
from app.database.engine import Database
from app.database.parallel import Cursor, read_parts

pytestmark = pytest.mark.own_database


@pytest.fixture
def numbers(database: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A table of the numbers below 8, and three processors."""
    monkeypatch.setattr(parallel, "available_threads", lambda: 3)
    with database.begin() as conn:
        conn.execute(text("CREATE TABLE numbers AS SELECT generate_series(0, 7) AS n"))
    return database


class Reading:
    """Reads a number and its connection's process, on each connection once so many have come."""

    def __init__(self, connections: int, patience: float = 20.0) -> None:
        self._together, self._patience = threading.Barrier(connections), patience
        self._met = threading.local()

    def __call__(self, cursor: Cursor, number: int) -> tuple[int, int]:
        if not hasattr(self._met, "once"):
            self._met.once = True
            self._together.wait(self._patience)
        found = cursor.execute("SELECT sum(n) FILTER (WHERE n = %s), pg_backend_pid() FROM numbers", [number])
        return found.fetchone() or (-1, -1)


def test_every_connection_sees_what_the_transaction_sees(numbers: Database) -> None:
    with numbers.read() as conn:
        conn.execute(text("SELECT count(*) FROM numbers"))
        with numbers.begin() as other:
            other.execute(text("INSERT INTO numbers SELECT * FROM numbers"))
        read = read_parts(conn, range(8), Reading(3))
    assert [total for total, _ in read] == [*range(8)]
    assert len({process for _, process in read}) == 3


def test_a_transaction_that_has_written_reads_alone(numbers: Database) -> None:
    with numbers.begin() as conn:
        conn.execute(text("UPDATE numbers SET n = n + 1"))
        with pytest.raises(threading.BrokenBarrierError):
            read_parts(conn, range(8), Reading(2, patience=0.5))
        assert read_parts(conn, [0, 8], Reading(1)) == [(None, ANY), (8, ANY)]


def test_connections_that_cannot_be_had_are_done_without(numbers: Database) -> None:
    url = numbers.url.render_as_string(hide_password=False)
    with Database(url, pool_size=2, connect_timeout=1) as small, small.read() as conn:
        read = read_parts(conn, range(8), Reading(2))
    assert [total for total, _ in read] == [*range(8)]
    assert len({process for _, process in read}) == 2


def test_what_fails_on_another_connection_is_raised(numbers: Database) -> None:
    here = threading.current_thread()
    failed = threading.Event()

    def read(cursor: Cursor, _: int) -> None:
        if threading.current_thread() is here:
            assert failed.wait(timeout=20)
        else:
            failed.set()
            cursor.execute("SELECT 1 / 0")

    with numbers.read() as conn, pytest.raises(psycopg.errors.DivisionByZero):
        read_parts(conn, range(8), read)


def test_behind_a_pooler_too(numbers: Database) -> None:
    url = numbers.url.render_as_string(hide_password=False)
    with Database(url, transaction_pooler=True) as database, database.read() as conn:
        read = read_parts(conn, range(8), Reading(3))
        assert conn.execute(text("SHOW lock_timeout")).scalar_one() == "20s"
    assert len({process for _, process in read}) == 3
