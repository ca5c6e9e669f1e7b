"""Answers to unread bodies come late where an address had many of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient

from app.guard import back_off
from app.guard.back_off import BackOff
from app.guard.errors import RateLimitedError
from app.guard.limits import RateLimits
from app.guard.stopping import OpenAnswers
from app.main import create_app
from app.settings import ServerSettings, Settings

VOTE = {"model_a": "a", "model_b": "b", "winner": "tie", "annotator": "k"}
NEVER = 1e6


@asynccontextmanager
async def service(settings: Settings, per_minute: int | None) -> AsyncIterator[FastAPI]:
    server = ServerSettings(unread_bodies_per_minute=per_minute)
    app = create_app(settings.model_copy(update={"server": server}))
    async with app.router.lifespan_context(app):
        yield app


def caller(app: FastAPI, address: str = "192.0.2.1") -> AsyncClient:
    return AsyncClient(transport=ASGITransport(app, client=(address, 1)), base_url="http://x/api/v1", timeout=120)


async def until_one_waits(app: FastAPI) -> None:
    for _ in range(100_000):
        if app.state.process[BackOff]._waiting:
            return
        await asyncio.sleep(0)
    pytest.fail("the answer does not wait")


@pytest.mark.parametrize("path", ["/refits", "/votes/batch", "/nothing"])
def test_only_refusals_of_the_address_wait(
    settings: Settings, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(back_off, "SECONDS", NEVER)
    key = {"Authorization": f"Bearer {keys['ingest']}"}
    refused = 404 if path == "/nothing" else 401

    async def run() -> None:
        async with service(settings, 2) as app, caller(app) as here, caller(app, "192.0.2.2") as elsewhere:
            for _ in range(2):
                assert (await here.post(path, json={})).status_code == refused
            late = asyncio.create_task(here.post(path, json={}))
            await until_one_waits(app)
            assert (await here.post("/votes", json=VOTE, headers=key)).status_code == 201
            assert (await here.get("/leaderboard")).status_code == 404
            assert (await elsewhere.post(path, json={})).status_code == refused
            assert not late.done()
            app.state.process[OpenAnswers].end()
            assert (await late).status_code == refused
            assert (await here.post(path, json={})).status_code == refused, "nothing waits in a service that stops"

    asyncio.run(run())


def test_the_answer_comes_at_last(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(back_off, "SECONDS", 0.01)

    async def run() -> None:
        async with service(settings, 1) as app, caller(app) as here:
            answers = [await here.post("/refits", json={}) for _ in range(3)]
            assert [answer.status_code for answer in answers] == [401] * 3
            assert answers[2].headers["connection"] == "close"

    asyncio.run(run())


def test_only_so_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(back_off, "SECONDS", NEVER)
    monkeypatch.setattr(back_off, "MOST_WAITING", 2)

    async def run() -> None:
        waits = BackOff(1)
        scope: dict[str, Any] = {"client": ("192.0.2.1", 1), "state": {}}
        await waits.wait(scope)
        held = [asyncio.create_task(waits.wait(scope)) for _ in range(2)]
        await asyncio.sleep(0)
        await asyncio.wait_for(waits.wait(scope), 60)
        assert not any(one.done() for one in held)
        waits.stop()
        await asyncio.gather(*held)

    asyncio.run(run())


def test_answers_that_wait_are_no_requests_in_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(back_off, "SECONDS", NEVER)

    async def run() -> None:
        waits, limits = BackOff(1), RateLimits(per_key=None, per_address=None, at_once=1)

        def entered() -> dict[str, Any]:
            scope: dict[str, Any] = {"client": ("192.0.2.1", 1), "state": {}}
            limits.enter(scope)
            return scope

        first = entered()
        await waits.wait(first)
        with pytest.raises(RateLimitedError):
            entered()
        late = asyncio.create_task(waits.wait(first))
        await asyncio.sleep(0)
        entered()
        waits.stop()
        await late

    asyncio.run(run())


def test_no_limit_is_none() -> None:
    async def run() -> None:
        waits = BackOff(None)
        for _ in range(1000):
            await waits.wait({"client": ("192.0.2.1", 1), "state": {}})
        assert not waits._waiting

    asyncio.run(run())


def test_a_request_does_not_count_as_slow_for_waiting(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds: list[float] = []

    async def hour(_waits: BackOff, scope: Any) -> None:
        scope["state"][back_off.WAITED] = 3600.0

    async def run() -> None:
        async with service(settings, 1) as app, caller(app) as here:
            await here.post("/refits", json={})

    monkeypatch.setattr(BackOff, "wait", hour)
    monkeypatch.setattr("app.guard.middleware.count_request", lambda _scope, _status, took: seconds.append(took))
    asyncio.run(run())
    assert [took < 0 for took in seconds] == [True], "the hour that it waited is not taken off"
