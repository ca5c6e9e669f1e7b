import threading
from types import SimpleNamespace

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from app.store.database import (
    Database,
    DatabaseBusyError,
    DatabaseContendedError,
    DatabaseTooOldError,
    DatabaseUnreachableError,
    DatabaseUrlError,
    _refuse_old_server,
    parse_url,
)


@pytest.fixture
def numbers(database: Database) -> Database:
    """A table to write to."""
    with database.begin() as conn:
        conn.execute(text("CREATE TABLE numbers (n int PRIMARY KEY)"))
        conn.execute(text("INSERT INTO numbers VALUES (1), (2)"))
    return database


def count(database: Database) -> int:
    with database.read() as conn:
        return int(conn.execute(text("SELECT count(*) FROM numbers")).scalar_one())


def test_begin_commits_at_the_end(numbers: Database) -> None:
    with numbers.begin() as conn:
        conn.execute(text("INSERT INTO numbers VALUES (3)"))
        assert count(numbers) == 2
    assert count(numbers) == 3


def test_begin_rolls_back_what_raises(numbers: Database) -> None:
    def fail() -> None:
        with numbers.begin() as conn:
            conn.execute(text("INSERT INTO numbers VALUES (3)"))
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    assert count(numbers) == 2


def test_read_sees_one_moment(numbers: Database) -> None:
    with numbers.read() as view:
        assert view.execute(text("SELECT count(*) FROM numbers")).scalar_one() == 2
        with numbers.begin() as conn:
            conn.execute(text("INSERT INTO numbers VALUES (3)"))
        assert view.execute(text("SELECT count(*) FROM numbers")).scalar_one() == 2
    assert count(numbers) == 3


def test_read_does_not_write(numbers: Database) -> None:
    with pytest.raises(DBAPIError, match="read-only"), numbers.read() as view:
        view.execute(text("INSERT INTO numbers VALUES (3)"))


def test_a_connection_s_kind_of_transaction_is_not_the_next_one_s(database_url: str) -> None:
    with Database(database_url, pool_size=1) as database:
        with database.read() as view:
            assert view.execute(text("SHOW transaction_isolation")).scalar_one() == "repeatable read"
        with database.begin() as conn:
            assert conn.execute(text("SHOW transaction_isolation")).scalar_one() == "read committed"
            conn.execute(text("CREATE TABLE written (n int)"))


def test_a_statement_s_own_fault_is_not_the_server_s(numbers: Database) -> None:
    with pytest.raises(DBAPIError, match="duplicate key"), numbers.begin() as conn:
        conn.execute(text("INSERT INTO numbers VALUES (1)"))


def test_values_do_not_end_in_messages(numbers: Database) -> None:
    with pytest.raises(DBAPIError) as caught, numbers.begin() as conn:
        conn.execute(text("SELECT :who / 0"), {"who": 271828})
    assert "271828" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "mysql://u:hunter2@h/x",
        "postgresql://u:hunter2@h:port/x",
        "hunter2",
        "",
        "postgresql+asyncpg://h/x",
    ],
)
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(DatabaseUrlError) as caught:
        Database(url)
    assert "hunter2" not in caught.value.detail


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_plain_addresses_get_our_driver(scheme: str) -> None:
    assert parse_url(f"{scheme}://u@h/x").drivername == "postgresql+psycopg"


@pytest.mark.parametrize(
    "url", ["postgresql://u:hunter2@127.0.0.1:1/x", "postgresql://u:hunter2@127.0.0.1:1/x?sslrotcert=1"]
)
def test_a_server_that_is_not_there(url: str) -> None:
    with pytest.raises(DatabaseUnreachableError) as caught, Database(url).begin():
        pass
    assert "\n" not in caught.value.detail
    assert "hunter2" not in caught.value.detail


def test_a_database_that_is_not_there(database_url: str) -> None:
    missing = parse_url(database_url).set(database="nowhere").render_as_string(hide_password=False)
    with pytest.raises(DatabaseUnreachableError, match='"nowhere" does not exist'), Database(missing).begin():
        pass


def test_an_old_server_is_refused() -> None:
    with pytest.raises(DatabaseTooOldError, match="PostgreSQL 14"):
        _refuse_old_server(SimpleNamespace(info=SimpleNamespace(server_version=140_012)), None)


def _terminate_others(url: str) -> None:
    plain = parse_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def test_idle_connections_that_were_cut_are_replaced(numbers: Database, database_url: str) -> None:
    assert count(numbers) == 2
    _terminate_others(database_url)
    assert count(numbers) == 2


def test_a_transaction_that_was_cut_is_the_server_s_fault(numbers: Database, database_url: str) -> None:
    def write() -> None:
        with numbers.begin() as conn:
            conn.execute(text("INSERT INTO numbers VALUES (3)"))
            _terminate_others(database_url)

    with pytest.raises(DatabaseUnreachableError):
        write()
    assert count(numbers) == 2


def test_an_exhausted_pool(database_url: str) -> None:
    with (
        Database(database_url, pool_size=1, connect_timeout=1) as database,
        database.begin(),
        pytest.raises(DatabaseBusyError, match="in use"),
        database.begin(),
    ):
        pass


def test_a_deadlock_can_be_tried_again(numbers: Database) -> None:
    locked = threading.Barrier(2)
    outcomes: list[type[Exception] | None] = []

    def lock_both(first: int, second: int) -> None:
        lock = text("SELECT n FROM numbers WHERE n = :n FOR UPDATE")
        try:
            with numbers.begin() as conn:
                conn.execute(lock, {"n": first})
                locked.wait()
                conn.execute(lock, {"n": second})
        except DatabaseContendedError as error:
            outcomes.append(type(error))
        else:
            outcomes.append(None)

    threads = [threading.Thread(target=lock_both, args=pair) for pair in ((1, 2), (2, 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes, key=str) == [DatabaseContendedError, None]
