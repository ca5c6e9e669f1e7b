import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection, event, text
from sqlalchemy.exc import DataError

from app.api.group_commit import QueueFullError, ShuttingDownError
from app.auth.callers import Caller
from app.database.engine import Database
from app.database.errors import DatabaseContendedError
from app.naming.known_names import Known
from app.votes import service as ingest
from app.votes.schemas import Vote, VoteReceipt
from app.votes.service import VoteQueue
from tests.fixtures.crowds import SENDER


def vote(number: int) -> Vote:
    return Vote(model_a="a", model_b="b", winner="tie", annotator=f"k{number}")


def count(database: Database) -> int:
    with database.read() as conn:
        return int(conn.execute(text("SELECT count(*) FROM votes")).scalar_one())


class HeldDatabase(Database):
    """A database whose writes wait until they are let go, and are counted."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.go = threading.Event()
        self.writes = 0

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        self.writes += 1
        assert self.go.wait(120)
        with super().begin() as conn:
            yield conn


@pytest.fixture
def held(database_url: str) -> Iterator[HeldDatabase]:
    with HeldDatabase(database_url) as database:
        yield database


async def until_writing(held: HeldDatabase) -> None:
    while held.writes == 0:  # noqa: ASYNC110  the writer is a thread: there is no event to wait for
        await asyncio.sleep(0.001)


async def submit_all(queue: VoteQueue, votes: list[Vote]) -> list[VoteReceipt | BaseException]:
    return await asyncio.gather(*(queue.submit((one, SENDER)) for one in votes), return_exceptions=True)


def statuses(results: list[VoteReceipt | BaseException]) -> list[str]:
    return [one.status if isinstance(one, VoteReceipt) else type(one).__name__ for one in results]


def test_what_arrives_during_a_write_shares_the_next(held: HeldDatabase) -> None:
    async def run() -> None:
        queue = VoteQueue(held, queue_size=1000, commit_size=30)
        first = asyncio.create_task(queue.submit((vote(0), SENDER)))
        await until_writing(held)
        rest = asyncio.create_task(submit_all(queue, [vote(i) for i in range(1, 51)]))
        await asyncio.sleep(0)
        held.go.set()
        assert (await first).status == "created"
        assert statuses(await rest) == ["created"] * 50
        await queue.close()

    asyncio.run(run())
    assert held.writes == 3
    assert count(held) == 51


def test_requests_that_have_arrived_share_the_write_of_the_first(held: HeldDatabase) -> None:
    async def run() -> None:
        queue = VoteQueue(held, queue_size=100, commit_size=100)
        held.go.set()
        first = asyncio.create_task(queue.submit((vote(0), SENDER)))
        await asyncio.sleep(0)  # it waits, and the second request is read
        second = asyncio.create_task(queue.submit((vote(1), SENDER)))
        assert [(await one).status for one in (first, second)] == ["created"] * 2
        await queue.close()

    asyncio.run(run())
    assert held.writes == 1


def test_a_full_queue_refuses_at_once(held: HeldDatabase) -> None:
    async def run() -> None:
        queue = VoteQueue(held, queue_size=2, commit_size=2)
        first = asyncio.create_task(queue.submit((vote(0), SENDER)))
        await until_writing(held)
        waiting = [asyncio.create_task(queue.submit((vote(i), SENDER))) for i in (1, 2)]
        await asyncio.sleep(0)
        with pytest.raises(QueueFullError):
            await queue.submit((vote(3), SENDER))
        held.go.set()
        assert {(await one).status for one in (first, *waiting)} == {"created"}
        await queue.close()

    asyncio.run(run())
    assert count(held) == 3


def test_closing_writes_what_was_taken(held: HeldDatabase) -> None:
    async def run() -> None:
        queue = VoteQueue(held, queue_size=100, commit_size=10)
        taken = asyncio.create_task(submit_all(queue, [vote(i) for i in range(25)]))
        await until_writing(held)
        closing = asyncio.create_task(queue.close())
        await asyncio.sleep(0)
        with pytest.raises(ShuttingDownError):
            await queue.submit((vote(99), SENDER))
        held.go.set()
        await closing
        assert statuses(await taken) == ["created"] * 25

    asyncio.run(run())
    assert count(held) == 25


def test_a_caller_who_leaves_before_the_write_leaves_no_vote(held: HeldDatabase) -> None:
    async def run() -> None:
        queue = VoteQueue(held, queue_size=100, commit_size=10)
        writing, waiting, other = (asyncio.create_task(queue.submit((vote(i), SENDER))) for i in range(3))
        await until_writing(held)
        # The first group took all three; what comes now waits for the next.
        late, staying = (asyncio.create_task(queue.submit((vote(i), SENDER))) for i in (3, 4))
        await asyncio.sleep(0)
        waiting.cancel()
        late.cancel()
        held.go.set()
        assert [(await one).status for one in (writing, other, staying)] == ["created"] * 3
        await queue.close()

    asyncio.run(run())
    assert count(held) == 4


@pytest.mark.parametrize(
    ("failure", "outcome"),
    [
        (DataError("INSERT", {}, ValueError("no")), "BadInputError"),
        (ZeroDivisionError("a bug"), "ZeroDivisionError"),
        (DatabaseContendedError("deadlock"), "DatabaseContendedError"),
    ],
)
@pytest.mark.parametrize("place", [0, 3, 6])
def test_neighbours_of_a_vote_that_breaks_the_statement_are_recorded(
    database: Database, monkeypatch: pytest.MonkeyPatch, place: int, failure: Exception, outcome: str
) -> None:
    record = ingest.record_votes

    def fail(conn: Connection, submissions: list[tuple[Vote, Caller]], known: Known) -> list[VoteReceipt]:
        receipts = record(conn, submissions, known)
        if any(vote.annotator == f"k{place}" for vote, _ in submissions):
            raise failure
        return receipts

    monkeypatch.setattr(ingest, "record_votes", fail)

    async def run() -> list[VoteReceipt | BaseException]:
        queue = VoteQueue(database, queue_size=100, commit_size=100)
        results = await submit_all(queue, [vote(i) for i in range(7)])
        await queue.close()
        return results

    expected = ["created"] * 7
    expected[place] = outcome
    assert statuses(asyncio.run(run())) == expected
    assert count(database) == 6


def test_a_deadlock_that_passes_is_not_reported(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    record = ingest.record_votes
    failures = iter([DatabaseContendedError("deadlock")])

    def fail_once(conn: Connection, submissions: list[tuple[Vote, Caller]], known: Known) -> list[VoteReceipt]:
        for failure in failures:
            raise failure
        return record(conn, submissions, known)

    monkeypatch.setattr(ingest, "record_votes", fail_once)

    async def run() -> list[VoteReceipt | BaseException]:
        queue = VoteQueue(database, queue_size=100, commit_size=100)
        results = await submit_all(queue, [vote(i) for i in range(4)])
        await queue.close()
        return results

    assert statuses(asyncio.run(run())) == ["created"] * 4


def test_a_commit_that_fails_is_not_answered_as_stored(database: Database) -> None:
    def cut(conn: Connection) -> None:
        conn.exec_driver_sql("SELECT pg_terminate_backend(pg_backend_pid())")

    async def run() -> None:
        queue = VoteQueue(database, queue_size=100, commit_size=100)
        event.listen(database.engine, "commit", cut)
        assert statuses(await submit_all(queue, [vote(i) for i in range(5)])) == ["DatabaseUnreachableError"] * 5
        event.remove(database.engine, "commit", cut)
        assert statuses(await submit_all(queue, [vote(i) for i in range(5)])) == ["created"] * 5
        await queue.close()

    asyncio.run(run())
    assert count(database) == 5
