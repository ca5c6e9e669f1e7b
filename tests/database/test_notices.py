"""Notices between processes: who hears which, and what happens when the connection that hears them is lost."""

import queue
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from app.database.engine import Database
from app.database.errors import DatabaseReadOnlyError
from app.database.notices import Notices, notices_arrive, notify
from tests.fixtures.waiting import wait_until

END_LISTENER = "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
LISTENERS = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"


@pytest.fixture
def heard() -> "queue.Queue[str]":
    return queue.Queue()


@pytest.fixture
def notices(database: Database, heard: "queue.Queue[str]") -> Iterator[Notices]:
    """Says what it was called for: at first for both, once it is connected."""
    notices = Notices(database)
    notices.call("files", lambda: heard.put("files"))
    notices.call("refits", lambda: heard.put("refits"))
    yield notices
    notices.stop()


def say(database: Database, subject: Any) -> None:
    with database.begin() as conn:
        notify(conn, subject)


def one_listens(database: Database) -> bool:
    with database.read() as conn:
        return bool(conn.execute(text(LISTENERS)).scalar_one() == 1)


def take(heard: "queue.Queue[str]", number: int) -> list[str]:
    return [heard.get(timeout=60) for _ in range(number)]


def test_a_notice_calls_those_of_its_subject_at_the_commit(
    database: Database, notices: Notices, heard: "queue.Queue[str]"
) -> None:
    notices.start()
    notices.start()
    assert take(heard, 2) == ["files", "refits"]
    assert one_listens(database)
    with database.begin() as conn:
        notify(conn, "files")
        notify(conn, "files")
        say(database, "refits")  # another transaction, which commits first
        assert take(heard, 1) == ["refits"]
    assert take(heard, 1) == ["files"]
    say(database, "snapshots")
    say(database, "everything")
    assert take(heard, 2) == ["files", "refits"]
    notices.stop()
    say(database, "everything")
    assert heard.empty()
    wait_until(lambda: not one_listens(database))


def test_a_listener_whose_connection_is_killed_looks_at_everything_and_hears_again(
    database: Database, notices: Notices, heard: "queue.Queue[str]"
) -> None:
    with capture_logs() as logs:
        notices.start()
        take(heard, 2)
        with database.begin() as conn:
            notify(conn, "files")  # nobody hears it
            assert conn.execute(text(END_LISTENER + " AND datname = current_database()")).scalar_one() == 1
        assert {"files", "refits"} <= set(take(heard, 2))
        wait_until(lambda: one_listens(database))
        say(database, "refits")
        wait_until(lambda: heard.get(timeout=60) == "refits")
    assert [entry["event"] for entry in logs].count("notices_lost") == 1


@pytest.mark.own_database
def test_a_listener_outlives_a_database_that_is_away(
    database: Database,
    notices: Notices,
    heard: "queue.Queue[str]",
    closed_database: Callable[[], AbstractContextManager[None]],
) -> None:
    with capture_logs() as logs:
        notices.start()
        take(heard, 2)
        with closed_database():
            wait_until(lambda: any(entry["event"] == "notices_lost" for entry in logs))
            with pytest.raises(queue.Empty):
                heard.get(timeout=1)  # while it tries again and again
        assert take(heard, 2) == ["files", "refits"]
        say(database, "files")
        assert take(heard, 1) == ["files"]
    assert [entry["event"] for entry in logs].count("notices_lost") == 1


def test_behind_a_pooler_everything_is_looked_at_again_and_again(database_url: str, heard: "queue.Queue[str]") -> None:
    with Database(database_url, transaction_pooler=True) as database:
        notices = Notices(database)
        notices.call("files", lambda: heard.put("files"))
        notices.start()
        assert take(heard, 2) == ["files", "files"]
        assert database.pool.checkedin() == 0, "it asks the pooler for nothing"
        notices.stop()


class Standby(Database):
    """A database that is a standby, as far as notices go."""

    def listen(self, channel: str) -> Any:
        raise DatabaseReadOnlyError(f"cannot execute LISTEN {channel} during recovery")


def test_on_a_standby_everything_is_looked_at_again_and_again(database_url: str, heard: "queue.Queue[str]") -> None:
    with Standby(database_url) as database:
        notices = Notices(database)
        notices.call("snapshots", lambda: heard.put("snapshots"))
        notices.start()
        assert take(heard, 2) == ["snapshots", "snapshots"]
        notices.stop()


class Kept(Database):
    """A database whose notices do not arrive, as behind a pooler that keeps them: it listens to another one."""

    other: Database

    def listen(self, channel: str) -> Any:
        return self.other.listen(channel)


def test_notices_that_do_not_arrive_are_found_out(database: Database, empty_database_url: str) -> None:
    assert notices_arrive(database)
    with Kept(database.url.render_as_string(hide_password=False)) as kept, Database(empty_database_url) as other:
        kept.other = other
        assert not notices_arrive(kept, seconds=0.2)
