"""Answers to unread bodies come late where an address had many of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient

from app.guard.back_off import WAITED, BackOff
from app.guard.errors import RateLimitedError
from app.guard.limits import RateLimits
from app.guard.process_metrics import REGISTRY
from app.guard.stopping import OpenAnswers
from app.main import create_app
from app.settings import ServerSettings, Settings

VOTE = {"model_a": "a", "model_b": "b", "winner": "tie", "annotator": "k"}
NEVER = 1e6

pytestmark = pytest.mark.usefixtures("limits_clock")


@asynccontextmanager
async def service(settings: Settings, per_minute: int, *, seconds: float) -> AsyncIterator[FastAPI]:
    server = ServerSettings(unread_bodies_per_minute=per_minute)
    app = create_app(settings.model_copy(update={"server": server}))
    async with app.router.lifespan_context(app):
        app.state.process[BackOff].seconds = seconds
        yield app


def caller(app: FastAPI, address: str = "192.0.2.1") -> AsyncClient:
    return AsyncClient(transport=ASGITransport(app, client=(address, 1)), base_url="http://x/api/v1", timeout=120)


async def until_one_waits(app: FastAPI) -> None:
    for _ in range(100_000):
        if app.state.process[BackOff].waiting:
            return
        await asyncio.sleep(0)
    pytest.fail("the answer does not wait")


@pytest.mark.parametrize("path", ["/refits", "/votes/batch", "/nothing"])
def test_only_refusals_of_the_address_wait(settings: Settings, keys: dict[str, str], path: str) -> None:
    key = {"Authorization": f"Bearer {keys['ingest']}"}
    refused = 404 if path == "/nothing" else 401

    async def run() -> None:
        async with (
            service(settings, 2, seconds=NEVER) as app,
            caller(app) as here,
            caller(app, "192.0.2.2") as elsewhere,
        ):
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


def test_the_answer_comes_at_last(settings: Settings) -> None:
    async def run() -> None:
        async with service(settings, 1, seconds=0.01) as app, caller(app) as here:
            answers = [await here.post("/refits", json={}) for _ in range(3)]
            assert [answer.status_code for answer in answers] == [401] * 3
            assert answers[2].headers["connection"] == "close"

    asyncio.run(run())


def test_only_so_many_wait() -> None:
    async def run() -> None:
        waits = BackOff(1, seconds=NEVER, most_waiting=2)
        scope: dict[str, Any] = {"client": ("192.0.2.1", 1), "state": {}}
        await waits.wait(scope)
        held = [asyncio.create_task(waits.wait(scope)) for _ in range(2)]
        await asyncio.sleep(0)
        await asyncio.wait_for(waits.wait(scope), 60)
        assert not any(one.done() for one in held)
        waits.stop()
        await asyncio.gather(*held)

    asyncio.run(run())


def test_answers_that_wait_are_no_requests_in_progress() -> None:
    async def run() -> None:
        waits, limits = BackOff(1, seconds=NEVER), RateLimits(per_key=None, per_address=None, at_once=1)

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
        assert not waits.waiting

    asyncio.run(run())


class HourLate(BackOff):
    """Says that every answer waited for an hour."""

    async def wait(self, scope: Any) -> None:
        scope["state"][WAITED] = 3600.0


def test_a_request_does_not_count_as_slow_for_waiting(settings: Settings) -> None:
    async def run() -> None:
        async with service(settings, 1, seconds=NEVER) as app, caller(app) as here:
            app.state.process[BackOff] = HourLate(1)
            await here.post("/refits", json={})

    def counted() -> float:
        labels = {"method": "POST", "route": "/api/v1/refits"}
        return REGISTRY.get_sample_value("stable_arena_http_request_duration_seconds_sum", labels) or 0.0

    before = counted()
    asyncio.run(run())
    assert counted() < before, "the hour that it waited is not taken off"
