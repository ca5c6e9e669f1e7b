from app.database.engine import Database
from tests.fixtures.database import SharedDatabase


def test_a_connection_that_comes_back_after_its_test_is_closed(
    database: Database, shared_database: SharedDatabase
) -> None:
    conn = database.engine.connect()
    driver = conn.connection.driver_connection
    shared_database.restore()
    conn.close()
    assert driver is not None
    assert driver.closed
