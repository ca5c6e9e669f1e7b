"""What a process that freezes with a transaction open holds, and for how long: seen from another connection."""

import threading
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Connection, text

from app.database.engine import Database
from app.database.errors import DatabaseBusyError, DatabaseUnreachableError
from app.database.leases import acquire_lease, end_when_silent, lock_lease
from app.refits import runner as runners
from app.refits.publish import write_snapshot
from app.refits.runner import RefitRunner
from app.refits.service import find_refit

LEASE_SECONDS = 3.0


def take_over(database: Database) -> tuple[int | None, float]:
    began = time.monotonic()
    while time.monotonic() - began < 60:
        with database.begin() as conn:
            epoch = acquire_lease(conn, "refit", "another", LEASE_SECONDS)
        if epoch is not None:
            return epoch, time.monotonic() - began
        threading.Event().wait(0.01)
    pytest.fail("nobody could take over")


def freeze_after_acquiring(conn: Connection) -> None:
    assert acquire_lease(conn, "refit", "a worker", LEASE_SECONDS) == 2


def freeze_in_publication(conn: Connection) -> None:
    assert lock_lease(conn, "refit", 1)
    conn.execute(text("CREATE TABLE half_a_board (n int)"))


@pytest.mark.parametrize(("freeze", "expired"), [(freeze_in_publication, False), (freeze_after_acquiring, True)])
def test_a_frozen_holder_is_rolled_back_and_replaced(
    database: Database, freeze: Callable[[Connection], None], expired: bool
) -> None:
    with database.begin() as conn:
        assert acquire_lease(conn, "refit", "a worker", LEASE_SECONDS) == 1
        if expired:
            conn.execute(text("UPDATE leases SET expires_at = clock_timestamp()"))

    def freeze_and_thaw() -> None:
        with database.begin() as conn:
            freeze(conn)
            epoch, seconds = take_over(database)
            assert epoch == 2
            assert seconds <= 2 * LEASE_SECONDS
            conn.execute(text("SELECT 1"))  # thawed

    with pytest.raises(DatabaseUnreachableError):
        freeze_and_thaw()
    with database.read() as conn:
        assert conn.execute(text("SELECT to_regclass('half_a_board')")).scalar_one() is None


def test_no_transaction_may_wait_or_be_silent_for_ever(database: Database) -> None:
    for transaction in (database.begin, database.read):
        with transaction() as conn:
            for name in ("lock_timeout", "idle_in_transaction_session_timeout"):
                assert conn.execute(text(f"SHOW {name}")).scalar_one() not in ("0", "")


def test_the_shorter_limit_ends_with_its_transaction(database_url: str) -> None:
    show = text("SHOW idle_in_transaction_session_timeout")
    with Database(database_url, pool_size=1) as database:
        with database.begin() as conn:
            usual = conn.execute(show).scalar_one()
            end_when_silent(conn, 7)
            assert conn.execute(show).scalar_one() == "7s"
        with database.begin() as conn:
            assert conn.execute(show).scalar_one() == usual


@pytest.mark.parametrize(
    "statements",
    [
        ("SET LOCAL statement_timeout = '10ms'", "SELECT pg_sleep(10)"),  # as does an operator who cancels it
        ("SET TRANSACTION READ ONLY", "CREATE TABLE x (n int)"),  # as on a standby
    ],
)
def test_what_says_nothing_about_the_statement_is_worth_trying_again(
    database: Database, statements: tuple[str, ...]
) -> None:
    def run() -> None:
        with database.begin() as conn:
            for statement in statements:
                conn.execute(text(statement))

    with pytest.raises(DatabaseBusyError):
        run()


def test_nobody_waits_for_a_snapshot_that_is_being_written(
    database: Database, crowd: None, ask_for_refit: Any, runner: RefitRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process may freeze in the middle of sending one: then the server waits for the rest, without a limit."""

    def write_and_freeze(conn: Connection, *arguments: Any) -> UUID:
        snapshot_id = write_snapshot(conn, *arguments)
        monkeypatch.setattr(runners, "write_snapshot", write_snapshot)
        with database.begin() as others:
            others.execute(text("UPDATE leases SET expires_at = clock_timestamp()"))  # time passes
        wanted.append(ask_for_refit())
        assert runner.run_next(scheduled=False) == wanted[1]
        return snapshot_id

    wanted = [ask_for_refit()]
    monkeypatch.setattr(runners, "write_snapshot", write_and_freeze)
    assert runner.run_next(scheduled=False) == wanted[0]
    with database.read() as conn:
        frozen, other = (find_refit(conn, refit_id) for refit_id in wanted)
        assert conn.execute(text("SELECT count(*) FROM snapshots")).scalar_one() == 1
    assert (frozen.state, other.state) == ("superseded", "done")
