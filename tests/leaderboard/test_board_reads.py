import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Connection

from app.database.engine import Database, DatabaseUnreachableError
from app.leaderboard.board_files import BoardFiles
from app.leaderboard.board_reads import BoardAnswer, BoardChoice, BoardReads
from app.snapshots.service import NoSuchBoardError

NEWEST = BoardChoice("am-elo", None, (), None, None, "json")


class Counting(Database):
    """Counts the looks at it; fails while it is told to."""

    looks = 0
    lost = False

    @contextmanager
    def read(self) -> Iterator[Connection]:
        self.looks += 1
        if self.lost:
            raise DatabaseUnreachableError("lost")
        with super().read() as conn:
            yield conn


@pytest.fixture
def counting(database_url: str) -> Iterator[Counting]:
    with Counting(database_url) as database:
        yield database


def test_many_readers_share_a_look(counting: Counting, three: int) -> None:
    async def ask() -> list[Any]:
        reads = BoardReads(counting, BoardFiles())
        choices = [NEWEST, replace(NEWEST, method="m-elo"), replace(NEWEST, tag="nothing")]
        return await asyncio.gather(*(reads.read_newest(one) for one in choices * 30), return_exceptions=True)

    answers = asyncio.run(ask())
    assert counting.looks <= 2
    assert [type(one) for one in answers] == [BoardAnswer, BoardAnswer, NoSuchBoardError] * 30
    assert {one.version.method for one in answers[1::3]} == {"m-elo"}


def test_nobody_gets_an_answer_that_was_begun_before(counting: Counting, publish: Callable[..., int]) -> None:
    async def ask() -> None:
        reads = BoardReads(counting, BoardFiles())
        earlier = []
        for _ in range(5):
            number = await asyncio.to_thread(publish, {("am-elo", ""): {"ant": {}}})
            earlier.append(asyncio.create_task(reads.read_newest(NEWEST)))
            await asyncio.sleep(0)  # the look of the first is under way
            answer = await reads.read_newest(NEWEST)
            assert answer.version.snapshot.number == number
        await asyncio.gather(*earlier)

    asyncio.run(ask())


def test_a_lost_database_is_everybody_s_until_it_is_back(counting: Counting, three: int) -> None:
    async def ask() -> None:
        reads = BoardReads(counting, BoardFiles())
        counting.lost = True
        failed = await asyncio.gather(*(reads.read_newest(NEWEST) for _ in range(5)), return_exceptions=True)
        assert [type(one) for one in failed] == [DatabaseUnreachableError] * 5
        left = asyncio.create_task(reads.read_newest(NEWEST))
        await asyncio.sleep(0)
        left.cancel()  # the only one who waits leaves, and the failure is nobody's
        counting.lost = False
        assert (await reads.read_newest(NEWEST)).version.snapshot.number == three

    asyncio.run(ask())
