"""What needs no key and takes no work is limited too, for each route by itself; and no answer is guessed at."""

import re
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from httpx import Client

from app.guard import limits
from app.guard.admission import admissions_of
from app.main import create_app
from app.pages.rendering import asset
from app.settings import ServerSettings, Settings
from tests.fixtures.clocks import Clock

Ask = Callable[..., Any]

BURST = 2
OPEN = {
    "/healthz": 200,
    "/readyz": 200,
    "/docs": 200,
    "/api/v1/openapi.json": 200,
    "/nothing": 404,
    "/api/v1/nothing": 404,
    "DELETE /healthz": 405,
}
FILES = 10 * BURST
VOTE = {"model_a": "a", "model_b": "b", "winner": "tie", "annotator": "k"}


@pytest.fixture
def tight(limits_clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the limits' clock, and let few requests come at once."""
    monkeypatch.setattr(limits, "OPEN_BURST", BURST)


def send(client: Client, asked: str, address: str = "192.0.2.1") -> Any:
    """Send what `asked` says, such as `DELETE /healthz`, as a browser would for another page, from an address."""
    method, _, path = asked.rpartition(" ")
    headers = {"X-Forwarded-For": address}
    if method == "OPTIONS":
        headers |= {"Origin": "https://other.example", "Access-Control-Request-Method": "GET"}
    return client.request(method or "GET", path, headers=headers)


def test_every_route_says_who_may_ask(usual_app: FastAPI) -> None:
    undecided = [
        route.path
        for route in iter_route_contexts(usual_app.routes)
        if not admissions_of(getattr(route.original_route, "dependant", None))
    ]
    assert undecided == []


@pytest.mark.parametrize("asked", OPEN)
def test_an_address_may_ask_so_often(client: Client, tight: None, asked: str) -> None:
    answers = [send(client, asked) for _ in range(BURST + 1)]

    assert [answer.status_code for answer in answers] == [OPEN[asked]] * BURST + [429]
    assert int(answers[-1].headers["retry-after"]) > 0
    assert send(client, asked, "192.0.2.2").status_code == OPEN[asked], "another address"


@pytest.mark.parametrize("asked", [asset("style.css"), "OPTIONS /api/v1/leaderboard"])
def test_a_page_asks_for_several_files(client: Client, tight: None, asked: str) -> None:
    statuses = [send(client, asked).status_code for _ in range(FILES + 1)]

    assert statuses == [200] * FILES + [429]


def test_a_flood_on_one_route_keeps_nothing_else_from_its_address(
    client: Client, tight: None, keys: dict[str, str]
) -> None:
    while send(client, "/nothing").status_code != 429:
        pass
    headers = {"X-Forwarded-For": "192.0.2.1", "Authorization": f"Bearer {keys['ingest']}"}
    recorded = client.post("/api/v1/votes", json=VOTE, headers=headers)

    assert [send(client, path).status_code for path in ("/healthz", "/readyz", asset("style.css"))] == [200] * 3
    assert send(client, "/method").status_code == 200
    assert recorded.status_code == 201


def test_metrics_that_are_public_are_limited(settings: Settings, serving: Ask, tight: None) -> None:
    public = create_app(settings.model_copy(update={"public_metrics": True}))
    with serving(public) as url, Client(base_url=url, timeout=120) as client:
        assert [send(client, "/metrics").status_code for _ in range(BURST + 1)] == [200] * BURST + [429]


def test_no_limit_is_none_here_too(tight: None) -> None:
    unlimited = limits.RateLimits(per_key=None, per_address=None)
    for _ in range(10 * BURST):
        unlimited.count_open({"client": ("192.0.2.1", 1), "state": {}, "method": "GET"})


def test_questions_before_requests_leave_none_in_progress(settings: Settings, serving: Ask) -> None:
    few = create_app(settings.model_copy(update={"server": ServerSettings(connections_per_address=2)}))
    with serving(few) as url, Client(base_url=url, timeout=120) as client:
        statuses = [send(client, "OPTIONS /api/v1/leaderboard").status_code for _ in range(5)]
    assert statuses == [200] * 5


def test_browsers_guess_at_no_answer(usual_app: FastAPI, client: Client) -> None:
    asked = [
        (method, re.sub(r"{[\w:]+}", str(uuid4()), route.path))
        for route in iter_route_contexts(usual_app.routes)
        for method in route.methods or ()
    ]
    wrong = []
    for number, (method, path) in enumerate([*asked, ("GET", "/nothing"), ("GET", "/api/v1/nothing")]):
        headers = {"X-Forwarded-For": f"192.0.{number // 250}.{number % 250}"}
        with client.stream(method, path, headers=headers) as answer:
            if answer.headers.get_list("x-content-type-options") != ["nosniff"]:
                wrong.append((method, path))
    assert wrong == []
    assert len(asked) > 150
    assert send(client, "OPTIONS /api/v1/leaderboard").headers.get_list("x-content-type-options") == ["nosniff"]
