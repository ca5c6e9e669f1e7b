import threading

import pytest
from sqlalchemy import func, text, update

from app.database.engine import Database
from app.database.leases import LeasedJob, acquire_lease, lease_is_free
from app.database.tables import leases
from app.errors import UnavailableError

EXPIRES = text("SELECT expires_at FROM leases")


def is_free(database: Database) -> bool:
    with database.read() as conn:
        return lease_is_free(conn, "job")


def test_a_claimed_job_is_given_back_at_its_end(database: Database) -> None:
    job, other = LeasedJob(database, "job", 60), LeasedJob(database, "job", 60)
    assert job.claim(lambda _: "begun") == "begun"
    with job:
        assert other.claim(lambda _: "begun") is None
        with database.begin() as conn:
            assert job.lock(conn)
    assert is_free(database)
    assert (job.epoch, other.claim(lambda _: "begun"), other.epoch) == (1, "begun", 2)


def test_with_nothing_to_do_the_lease_is_given_back_at_once(database: Database) -> None:
    assert LeasedJob(database, "job", 60).claim(lambda _: None) is None
    assert is_free(database)


def test_what_begins_a_job_commits_with_its_lease(database: Database) -> None:
    def begin_and_fail(_: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        LeasedJob(database, "job", 60).claim(begin_and_fail)
    with database.read() as conn:
        assert conn.execute(EXPIRES).all() == []


def test_a_job_that_fails_is_given_back(database: Database) -> None:
    job = LeasedJob(database, "job", 60)
    job.claim(lambda _: True)
    with pytest.raises(UnavailableError), job:
        raise UnavailableError("the database is away")
    assert is_free(database)


def test_the_lease_is_renewed_during_the_job(database: Database) -> None:
    job = LeasedJob(database, "job", 3)
    job.claim(lambda _: True)
    with database.read() as conn:
        first = conn.execute(EXPIRES).scalar_one()
    with job:
        for _ in range(1000):
            with database.read() as conn:
                if conn.execute(EXPIRES).scalar_one() > first:
                    return
            threading.Event().wait(0.02)
    pytest.fail("it was not renewed")


def test_a_job_that_lost_its_lease_neither_locks_nor_releases_it(database: Database) -> None:
    job = LeasedJob(database, "job", 60)
    job.claim(lambda _: True)
    with job, database.begin() as conn:
        conn.execute(update(leases).values(expires_at=func.clock_timestamp()))
        assert acquire_lease(conn, "job", "another", 60) == 2
        assert not job.lock(conn)
    assert not is_free(database)


def test_the_lease_of_a_one_off_job_stays_until_the_job_is_done(database: Database) -> None:
    def epochs() -> list[int]:
        with database.read() as conn:
            return list(conn.execute(text("SELECT epoch FROM leases")).scalars())

    job = LeasedJob(database, "job", 60, one_off=True)
    job.claim(lambda _: True)
    with pytest.raises(UnavailableError), job:
        raise UnavailableError("the database is away")
    assert epochs() == [1]
    again = LeasedJob(database, "job", 60, one_off=True)
    again.claim(lambda _: True)
    with again:
        assert epochs() == [2]
    assert epochs() == []
    assert LeasedJob(database, "job", 60, one_off=True).claim(lambda _: None) is None
    assert epochs() == []
