import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection

from app.database.engine import Database
from app.database.errors import DatabaseBusyError, DatabaseUnreachableError
from app.leaderboard.newest import NewestState
from app.leaderboard.service import SnapshotState


class Counting(Database):
    """Counts the looks at it; fails while `lost` is set, and hangs until `answers` is set."""

    looks = 0
    lost = False

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.answers = threading.Event()
        self.answers.set()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        self.looks += 1
        assert self.answers.wait(60)
        if self.lost:
            raise DatabaseUnreachableError("lost")
        with super().read() as conn:
            yield conn


async def number_of(newest: NewestState) -> int | None:
    """The number of the newest snapshot."""
    state = await newest.look()
    return state and state.snapshot.number


@pytest.fixture
def counting(database_url: str) -> Iterator[Counting]:
    with Counting(database_url) as database:
        yield database


def test_many_readers_share_a_look(counting: Counting, three: int) -> None:
    async def ask() -> list[SnapshotState | None]:
        newest = NewestState(counting)
        return await asyncio.gather(*(newest.look() for _ in range(30)))

    assert {state and state.snapshot.number for state in asyncio.run(ask())} == {three}
    assert counting.looks == 1


def test_a_database_that_hangs_is_not_waited_for_twice(counting: Counting, three: int) -> None:
    async def ask() -> None:
        newest = NewestState(counting, patience_seconds=2.0)
        counting.answers.clear()
        for _ in range(3):
            with pytest.raises(DatabaseBusyError):
                await newest.look()
        assert counting.looks == 1
        counting.answers.set()
        looks = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.wait(looks)
        assert await number_of(newest) == three

    asyncio.run(ask())


def test_no_reader_gets_an_older_snapshot(counting: Counting, publish: Callable[..., int]) -> None:
    async def ask() -> None:
        newest = NewestState(counting)
        earlier = []
        for _ in range(5):
            number = await asyncio.to_thread(publish, {("am-elo", ""): {"ant": {}}})
            earlier.append(asyncio.create_task(newest.look()))
            await asyncio.sleep(0)  # the look of the first is under way
            assert await number_of(newest) == number
        await asyncio.gather(*earlier)

    asyncio.run(ask())


def test_all_readers_fail_until_a_lost_database_is_back(counting: Counting, three: int) -> None:
    async def ask() -> None:
        newest = NewestState(counting)
        counting.lost = True
        failed = await asyncio.gather(*(newest.look() for _ in range(5)), return_exceptions=True)
        assert [type(one) for one in failed] == [DatabaseUnreachableError] * 5
        left: asyncio.Task[SnapshotState | None] = asyncio.create_task(newest.look())
        await asyncio.sleep(0)
        left.cancel()  # the only reader leaves, and no reader sees the failure
        counting.lost = False
        assert await number_of(newest) == three

    asyncio.run(ask())
