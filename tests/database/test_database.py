import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import psycopg
import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError

from app.database.engine import Database, parse_url, refuse_old_server
from app.database.errors import (
    DatabaseBusyError,
    DatabaseContendedError,
    DatabaseReadOnlyError,
    DatabaseTooOldError,
    DatabaseUnreachableError,
    DatabaseUrlError,
)
from tests.fixtures.errors import naming, sqlstate

pytestmark = pytest.mark.own_database


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
    with pytest.raises(DBAPIError, check=sqlstate("25006")), numbers.read() as view:
        view.execute(text("INSERT INTO numbers VALUES (3)"))


def test_a_connection_s_kind_of_transaction_is_not_the_next_one_s(database_url: str) -> None:
    with Database(database_url, pool_size=1) as database:
        with database.read() as view:
            assert view.execute(text("SHOW transaction_isolation")).scalar_one() == "repeatable read"
        with database.begin() as conn:
            assert conn.execute(text("SHOW transaction_isolation")).scalar_one() == "read committed"
            conn.execute(text("CREATE TABLE written (n int)"))


def test_a_statement_s_own_fault_is_not_the_server_s(numbers: Database) -> None:
    with pytest.raises(DBAPIError, check=sqlstate("23505")), numbers.begin() as conn:
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


def test_a_server_is_revived_once_for_all_who_wait() -> None:
    tried, revived = threading.Semaphore(0), list[str]()

    def revive() -> None:
        for _ in range(8):  # every thread has found that there is no server
            assert tried.acquire(timeout=60)
        revived.append("once")

    def connect() -> None:
        with pytest.raises(DatabaseUnreachableError), database.begin():
            pass

    with Database("postgresql://u@127.0.0.1:1/x", revive=revive) as database, ThreadPoolExecutor(8) as pool:
        event.listen(database.engine, "do_connect", lambda *_: tried.release())
        for each in [pool.submit(connect) for _ in range(8)]:
            each.result()
        assert revived == ["once"]


def test_a_database_that_is_not_there(database_url: str) -> None:
    missing = parse_url(database_url).set(database="nowhere").render_as_string(hide_password=False)
    with pytest.raises(DatabaseUnreachableError, check=naming("nowhere")), Database(missing).begin():
        pass


def test_an_old_server_is_refused() -> None:
    with pytest.raises(DatabaseTooOldError, check=naming(14)):
        refuse_old_server(SimpleNamespace(info=SimpleNamespace(server_version=140_012)), None)


def terminate_others(url: str) -> None:
    plain = parse_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND usename = user AND pid <> pg_backend_pid()"
        )


def test_idle_connections_that_were_cut_are_replaced(numbers: Database, database_url: str) -> None:
    assert count(numbers) == 2
    terminate_others(database_url)
    assert count(numbers) == 2


def test_a_transaction_that_was_cut_is_the_server_s_fault(numbers: Database, database_url: str) -> None:
    def write() -> None:
        with numbers.begin() as conn:
            conn.execute(text("INSERT INTO numbers VALUES (3)"))
            terminate_others(database_url)

    with pytest.raises(DatabaseUnreachableError):
        write()
    assert count(numbers) == 2


def test_a_connection_in_use_is_closed_when_it_comes_back_to_a_closed_database(database_url: str) -> None:
    database = Database(database_url)
    with database.read() as conn:
        driver = conn.connection.driver_connection
        database.close()
        assert conn.execute(text("SELECT 1")).scalar_one() == 1
    assert driver is not None
    assert driver.closed


def test_an_exhausted_pool(database_url: str) -> None:
    with (
        Database(database_url, pool_size=1, connect_timeout=1) as database,
        database.begin(),
        pytest.raises(DatabaseBusyError),
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


def test_a_write_that_came_second_can_be_tried_again(numbers: Database) -> None:
    def write() -> None:
        with numbers.begin() as conn:
            conn.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
            conn.execute(text("SELECT n FROM numbers"))
            with numbers.begin() as other:
                other.execute(text("UPDATE numbers SET n = 3 WHERE n = 2"))
            conn.execute(text("DELETE FROM numbers WHERE n = 2"))

    with pytest.raises(DatabaseContendedError):
        write()
    assert count(numbers) == 2


def test_transactions_are_the_same_whatever_the_server_s_default_is(database_url: str) -> None:
    with Database(database_url) as database, database.begin() as conn:
        conn.execute(text(f"ALTER DATABASE {database.url.database} SET default_transaction_isolation = serializable"))
    with Database(database_url, pool_size=1) as database:
        for transaction, level in ((database.begin, "read committed"), (database.read, "repeatable read")) * 2:
            with transaction() as conn:
                assert conn.execute(text("SHOW transaction_isolation")).scalar_one() == level


SAID_BY_THE_SERVER = {
    "53100": DatabaseBusyError,
    "53400": DatabaseBusyError,
    "58000": DatabaseBusyError,
    "58P01": DatabaseBusyError,
    "XX000": DatabaseBusyError,
    "57014": DatabaseBusyError,
    "57P03": DatabaseUnreachableError,
    "08006": DatabaseUnreachableError,
    "25P04": DatabaseUnreachableError,
    "40001": DatabaseContendedError,
}


@pytest.mark.parametrize("copied", [False, True], ids=["statement", "copy"])
@pytest.mark.parametrize(("state", "kind"), SAID_BY_THE_SERVER.items())
def test_what_is_the_server_s_fault_is_told_without_what_was_to_be_stored(
    database: Database, state: str, kind: type[Exception], copied: bool
) -> None:
    raising = (
        "CREATE FUNCTION pg_temp.fail() RETURNS int LANGUAGE plpgsql AS $$ BEGIN"
        f" RAISE EXCEPTION 'this cannot be done now' USING ERRCODE = '{state}', DETAIL = 'Failing row: (judge)'; END $$"
    )

    def fail() -> None:
        with database.begin() as conn:
            conn.execute(text(raising))
            if not copied:
                conn.execute(text("SELECT pg_temp.fail()"))
            driver = conn.connection.driver_connection
            with driver.cursor() as cursor, cursor.copy("COPY (SELECT pg_temp.fail()) TO STDOUT") as copy:  # type: ignore[union-attr]  # open
                list(copy)

    with pytest.raises(kind) as caught:
        fail()
    assert type(caught.value) is kind
    assert caught.value.detail == "this cannot be done now"


@pytest.mark.parametrize("setting", ["idle_in_transaction_session_timeout", "transaction_timeout"])
def test_a_transaction_that_the_server_ended_is_not_the_statement_s_fault(database: Database, setting: str) -> None:
    """Found out by the next statement, or, which SQLAlchemy does not see, by a copy."""

    def go_on(how: str) -> None:
        with database.begin() as conn:
            if setting == "transaction_timeout" and conn.dialect.server_version_info < (17,):
                pytest.skip("the server does not know that limit yet")
            conn.execute(text(f"SET LOCAL {setting} = '50ms'"))
            own = conn.execute(text("SELECT pg_backend_pid()")).scalar_one()
            gone = text("SELECT count(*) FROM pg_stat_activity WHERE pid = :pid")
            with database.begin() as watcher:
                while watcher.execute(gone, {"pid": own}).scalar_one():
                    watcher.execute(text("SELECT pg_sleep(0.01), pg_stat_clear_snapshot()"))
            if how == "copy":
                driver = conn.connection.driver_connection
                with driver.cursor() as cursor, cursor.copy("COPY (SELECT 1) TO STDOUT") as copy:  # type: ignore[union-attr]  # open
                    list(copy)
            conn.execute(text("SELECT 1"))

    for how in ("statement", "copy"):
        with pytest.raises(DatabaseUnreachableError):
            go_on(how)


def test_an_operator_s_freeze_stops_writes_and_no_reads(numbers: Database, database_url: str) -> None:
    name = parse_url(database_url).database
    with numbers.begin() as conn:
        conn.execute(text(f"ALTER DATABASE {name} SET default_transaction_read_only = on"))
    with Database(database_url, pool_size=1) as database:
        for _ in range(2):  # also on a connection that was read from before
            assert count(database) == 2
            with pytest.raises(DatabaseReadOnlyError), database.begin() as conn:
                conn.execute(text("INSERT INTO numbers VALUES (3)"))
        assert count(database) == 2


@pytest.mark.parametrize("rest", ["p@hush@127.0.0.1:1/x", "hush@hush/hush@127.0.0.1/x", "p@a/b?c@hush"])
def test_a_password_that_is_not_escaped_is_not_told(rest: str) -> None:
    with pytest.raises(DatabaseUrlError, check=naming("%40")) as caught:
        Database(f"postgresql://u:{rest}")
    assert "hush" not in caught.value.detail


def test_an_at_sign_may_stand_in_an_option() -> None:
    assert parse_url("postgresql://u:p@h/x?application_name=a@b").query == {"application_name": "a@b"}


def test_statements_are_planned_for_their_values(numbers: Database) -> None:
    """The plan for any values would be taken from the sixth call of a prepared statement on."""
    with numbers.read() as view:
        for n in range(20):
            view.execute(text("SELECT count(*) FROM numbers WHERE n >= :n"), {"n": n})
        plans = text("SELECT generic_plans, custom_plans FROM pg_prepared_statements WHERE statement LIKE '%n >=%'")
        generic, custom = view.execute(plans).one()
    assert generic == 0
    assert custom > 10
