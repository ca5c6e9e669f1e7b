import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, text

from app.database.engine import Database
from app.database.errors import DatabaseUnreachableError
from app.leaderboard.cache import LeaderboardCache
from app.leaderboard.service import LeaderboardVersion, SnapshotState
from app.snapshots.service import NoSuchLeaderboardError


class Counting(Database):
    """Counts the looks at it; fails while `lost` is set."""

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


def test_many_readers_share_a_look_and_a_rendering(counting: Counting, three: int) -> None:
    async def ask() -> list[Any]:
        cache = LeaderboardCache(counting)

        async def read(**choice: Any) -> bytes:
            _, content = await cache.read(LeaderboardVersion(await cache.newest(), **choice), "json")
            return content

        choices: list[dict[str, str]] = [{}, {"method": "m-elo"}, {"tag": "nothing"}]
        return await asyncio.gather(*(read(**choice) for choice in choices * 30), return_exceptions=True)

    answers = asyncio.run(ask())
    assert counting.looks <= 1 + 1 + 1 + 30, "one for the state, one for each leaderboard, one for each that is missing"
    assert [type(one) for one in answers] == [bytes, bytes, NoSuchLeaderboardError] * 30
    assert all(b'"method":"m-elo"' in one for one in answers[1::3])


def test_no_reader_gets_an_older_snapshot(counting: Counting, publish: Callable[..., int]) -> None:
    async def ask() -> None:
        cache = LeaderboardCache(counting)
        earlier = []
        for _ in range(5):
            number = await asyncio.to_thread(publish, {("am-elo", ""): {"ant": {}}})
            earlier.append(asyncio.create_task(cache.newest()))
            await asyncio.sleep(0)  # the look of the first is under way
            assert (await cache.newest()).snapshot.number == number
        await asyncio.gather(*earlier)

    asyncio.run(ask())


def test_all_readers_fail_until_a_lost_database_is_back(counting: Counting, three: int) -> None:
    async def ask() -> None:
        cache = LeaderboardCache(counting)
        counting.lost = True
        failed = await asyncio.gather(*(cache.newest() for _ in range(5)), return_exceptions=True)
        assert [type(one) for one in failed] == [DatabaseUnreachableError] * 5
        left: asyncio.Task[SnapshotState] = asyncio.create_task(cache.newest())
        await asyncio.sleep(0)
        left.cancel()  # the only reader leaves, and no reader sees the failure
        counting.lost = False
        assert (await cache.newest()).snapshot.number == three

    asyncio.run(ask())


def test_a_model_that_changes_meanwhile_is_another_version(counting: Counting, three: int) -> None:
    async def ask() -> None:
        cache = LeaderboardCache(counting)
        asked = LeaderboardVersion(await cache.newest())
        with counting.begin() as conn:
            conn.execute(text("UPDATE models SET organization = 'Ant Inc.' WHERE name = 'ant'"))
        version, content = await cache.read(asked, "csv")
        assert b"Ant Inc." in content
        assert version.etag("csv") != asked.etag("csv")
        assert (await cache.newest()).models_hash == version.state.models_hash
        with counting.begin() as conn:
            conn.execute(text("UPDATE models SET organization = NULL"))
        assert b"Ant Inc." not in (await cache.read(asked, "csv"))[1], "nothing was kept under what was asked for"

    asyncio.run(ask())


def test_what_was_read_longest_ago_is_forgotten_first(counting: Counting) -> None:
    cache, made = LeaderboardCache(counting, max_bytes=100), []

    def ask(name: str, size: int = 40) -> bytes:
        def make() -> bytes:
            made.append(name)
            return name.encode() * size

        return cache.remember((name,), make)

    assert ask("a") == ask("a") == b"a" * 40
    ask("b")
    ask("a")
    ask("c")
    assert made == ["a", "b", "c"]
    ask("a")
    ask("b")
    assert made == ["a", "b", "c", "b"]
    ask("x", 1000)
    ask("b")
    assert made == ["a", "b", "c", "b", "x"], "what is larger than the cache drives nothing out"
