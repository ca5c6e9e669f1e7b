"""The news that open pages wait for."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fastapi import FastAPI
from httpx import Client, Response

from app.database.engine import Database
from app.database.notices import Notices
from app.main import create_app
from app.settings import Settings
from app.snapshots.events import SnapshotEvents, TooManyListenersError

Publish = Callable[..., int]
BOARD: dict[tuple[str, str], dict[str, Any]] = {("am-elo", ""): {"ant": {}}}


@contextmanager
def listening(client: Client) -> Iterator[tuple[Response, Iterator[int]]]:
    with client.stream("GET", "/events", timeout=60) as response:
        lines = (line for line in response.iter_lines() if line.startswith("data: "))
        yield response, (int(line.removeprefix("data: ")) for line in lines)


def test_a_listener_learns_of_the_newest_snapshot_and_of_each_that_follows(client: Client, publish: Publish) -> None:
    first = publish(BOARD)
    with listening(client) as (response, numbers):
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["Cache-Control"] == "no-cache"
        assert next(numbers) == first
        second = publish(BOARD)
        assert next(numbers) == second
        with listening(client) as (_, late):
            assert next(late) == second


def test_programs_listen_too(client: Client, publish: Publish, ask: Callable[..., Any]) -> None:
    first = publish(BOARD)
    path = "/api/v1/snapshots/events"
    with client.stream("GET", path, timeout=60, headers={"Authorization": "Bearer stale"}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = response.iter_lines()
        heard = [next(lines) for _ in range(6)]
    assert heard[:3] == [": snapshots of this arena", "retry: 5000", ""]
    assert sorted(heard[3:]) == sorted(["event: snapshot", f'data: {{"number":{first}}}', f"id: {first}"])
    with client.stream("GET", path, timeout=60, headers={"Last-Event-ID": str(first)}) as response:
        second = publish(BOARD)
        data = next(line for line in response.iter_lines() if line.startswith("data: "))
    assert data == f'data: {{"number":{second}}}'
    assert ask("GET", f"/snapshots/{second}", scope=None).json()["number"] == second


def test_listeners_are_bounded(
    settings: Settings, serving: Callable[[FastAPI], Any], publish: Publish, assert_problem: Callable[..., Any]
) -> None:
    publish(BOARD)
    app = create_app(settings)
    with serving(app) as url, Client(base_url=url, timeout=120) as client:
        app.state.process[SnapshotEvents] = SnapshotEvents(
            app.state.process[Database], app.state.process[Notices], most=1
        )
        with listening(client) as (_, numbers):
            next(numbers)
            for path in ("/events", "/api/v1/snapshots/events"):
                assert_problem(client.get(path), 503, "too-many-listeners")
            assert client.get("/").status_code == 200


def test_all_listeners_share_one_look_and_end_when_the_server_stops(database: Database, publish: Publish) -> None:
    publish(BOARD)
    looks = 0

    class Counted(SnapshotEvents):
        def read_newest(self) -> int:
            nonlocal looks
            looks += 1
            return super().read_newest()

    heard: list[int] = []

    async def listen(events: SnapshotEvents, all_heard: asyncio.Barrier) -> None:
        with events.place():
            async for number in events.numbers():
                heard.append(number)
                await all_heard.wait()

    async def run() -> None:
        notices = Notices(database)
        events, all_heard = Counted(database, notices, most=100, seconds=3600), asyncio.Barrier(101)
        listeners = [asyncio.create_task(listen(events, all_heard)) for _ in range(100)]
        await asyncio.wait_for(all_heard.wait(), 120)
        with pytest.raises(TooManyListenersError), events.place():
            pass
        events.stop()
        await asyncio.wait_for(asyncio.gather(*listeners), 120)
        with events.place():
            assert [number async for number in events.numbers()] == [], "a stopped server says no more"
        notices.stop()

    asyncio.run(run())
    assert len(heard) == 100
    assert looks <= 2, "one at once, and one when notices can come"
