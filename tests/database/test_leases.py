from datetime import timedelta

import pytest
from sqlalchemy import Connection, func, select, text, update

from app.database.engine import Database
from app.database.errors import DatabaseBusyError
from app.database.leases import acquire_lease, lease_is_free, lock_lease, release_lease, renew_lease
from app.database.tables import leases
from tests.fixtures.errors import sqlstate


def expire(conn: Connection) -> None:
    conn.execute(update(leases).values(expires_at=func.clock_timestamp()))


def set_the_clock_back(conn: Connection) -> None:
    """Let everything on record be an hour ahead of the clock."""
    conn.execute(update(leases).values(expires_at=leases.c.expires_at + timedelta(hours=1)))


def seconds_left(conn: Connection) -> float:
    left = func.extract("epoch", leases.c.expires_at - func.clock_timestamp())
    return float(conn.execute(select(left)).scalar_one())


def take_over_impatiently(database: Database) -> None:
    with database.begin() as conn:
        conn.execute(text("SET LOCAL lock_timeout = '50ms'"))
        acquire_lease(conn, "refit", "b", 60)


def test_one_holder_at_a_time(connection: Connection) -> None:
    assert lease_is_free(connection, "refit")
    assert acquire_lease(connection, "refit", "a", 60) == 1
    assert not lease_is_free(connection, "refit")
    assert acquire_lease(connection, "refit", "b", 60) is None
    assert acquire_lease(connection, "refit", "a", 60) is None
    assert acquire_lease(connection, "other", "b", 60) == 1


def test_every_taking_has_its_own_epoch(connection: Connection) -> None:
    assert acquire_lease(connection, "refit", "a", 60) == 1
    release_lease(connection, "refit", 1)
    assert lease_is_free(connection, "refit")
    assert acquire_lease(connection, "refit", "a", 60) == 2
    expire(connection)
    assert acquire_lease(connection, "refit", "b", 60) == 3


def test_a_lease_given_back_is_free_whatever_the_clock_says(connection: Connection) -> None:
    acquire_lease(connection, "refit", "a", 60)
    release_lease(connection, "refit", 1)
    set_the_clock_back(connection)
    assert lease_is_free(connection, "refit")
    assert acquire_lease(connection, "refit", "b", 60) == 2


def test_a_lease_from_the_future_runs_for_its_length_from_when_another_wants_it(connection: Connection) -> None:
    acquire_lease(connection, "refit", "a", 60)
    set_the_clock_back(connection)
    assert lease_is_free(connection, "refit")  # worth an attempt
    assert acquire_lease(connection, "refit", "b", 10) is None
    assert 50 < seconds_left(connection) <= 60
    assert not lease_is_free(connection, "refit")
    assert renew_lease(connection, "refit", 1, 60)
    expire(connection)
    assert acquire_lease(connection, "refit", "b", 10) == 2


def test_a_publication_under_a_lease_from_the_future_may_be_silent_for_its_length(connection: Connection) -> None:
    acquire_lease(connection, "refit", "a", 60)
    set_the_clock_back(connection)
    assert lock_lease(connection, "refit", 1)
    silent = connection.execute(text("SHOW idle_in_transaction_session_timeout")).scalar_one()
    assert silent == "1min"


def test_an_expired_lease_is_lost_for_good(connection: Connection) -> None:
    acquire_lease(connection, "refit", "a", 60)
    assert renew_lease(connection, "refit", 1, 60)
    expire(connection)
    assert not renew_lease(connection, "refit", 1, 60)
    assert not lock_lease(connection, "refit", 1)


def test_an_old_epoch_can_neither_renew_nor_release_nor_publish(connection: Connection) -> None:
    acquire_lease(connection, "refit", "a", 60)
    expire(connection)
    acquire_lease(connection, "refit", "b", 60)
    assert not renew_lease(connection, "refit", 1, 60)
    assert not lock_lease(connection, "refit", 1)
    release_lease(connection, "refit", 1)
    assert lock_lease(connection, "refit", 2)


def test_nobody_takes_the_lease_over_while_it_is_locked(database: Database) -> None:
    with database.begin() as publisher:
        acquire_lease(publisher, "refit", "a", 60)
    with database.begin() as publisher:
        assert lock_lease(publisher, "refit", 1)
        with pytest.raises(DatabaseBusyError, check=sqlstate("55P03")):
            take_over_impatiently(database)
