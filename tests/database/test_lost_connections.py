"""Connections that are lost where SQLAlchemy does not look: the loss is raised once, and no traceback is logged."""

import pytest
from sqlalchemy import text

from app.database.engine import Database
from app.database.errors import DatabaseUnreachableError
from tests.database.test_database import terminate_others

pytestmark = pytest.mark.own_database


@pytest.mark.parametrize("way", ["begin", "read", "statements", "listen"])
def test_a_lost_connection_is_raised_once_and_logged_without_a_traceback(
    database_url: str, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    def lose(database: Database) -> None:
        with database.listen("numbers") if way == "listen" else getattr(database, way)() as conn:
            # The driver's own: SQLAlchemy does not see the loss, as with COPY and with notices.
            driver = conn if way == "listen" else conn.connection.driver_connection
            terminate_others(database_url)
            driver.execute("SELECT 1")

    with Database(database_url, pool_size=1) as database:
        with pytest.raises(DatabaseUnreachableError):
            lose(database)
        with database.read() as conn:
            assert conn.execute(text("SELECT 1")).scalar_one() == 1
    assert [(record.name, record.message) for record in caplog.records] == []


def test_what_is_left_open_is_rolled_back(database: Database) -> None:
    with database.begin() as conn:
        conn.execute(text("CREATE TABLE numbers (n int)"))
    with database.statements() as conn:
        driver = conn.connection.driver_connection
        assert driver is not None
        driver.autocommit = False
        driver.execute("INSERT INTO numbers VALUES (9)")
    with database.read() as conn:
        assert conn.execute(text("SELECT count(*) FROM numbers")).scalar_one() == 0
