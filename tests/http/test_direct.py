from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from httpx import Client

from app.http.direct import DirectEndpoints
from app.main import create_app
from app.routes import DIRECT_ENDPOINTS
from app.settings import Settings

Ask = Callable[..., Any]

VOTE = b'{"model_a": "a", "model_b": "b", "winner": "tie", "annotator": "judge", "battle_id": "1"}'
AS_JSON = {"Content-Type": "application/json"}
REQUESTS = [
    (VOTE, AS_JSON, "ingest"),
    (VOTE, AS_JSON, "ingest"),  # again
    (VOTE.replace(b"tie", b"model_a"), AS_JSON, "ingest"),
    (VOTE.replace(b"tie", b"?"), AS_JSON, "ingest"),
    (VOTE[:-1], AS_JSON, "ingest"),
    (VOTE, {"Content-Type": "text/plain"}, "ingest"),
    (VOTE, {}, "ingest"),
    (b"", {}, "ingest"),
    (VOTE, AS_JSON, "read"),
    (VOTE, AS_JSON, None),
    (VOTE, {**AS_JSON, "Authorization": "Basic x"}, None),
    (VOTE, {**AS_JSON, "Authorization": "Bearer  x"}, None),
    (VOTE, {**AS_JSON, "Idempotency-Key": "k"}, "ingest"),
    (VOTE, {**AS_JSON, "Idempotency-Key": "k"}, "ingest"),
    (VOTE, {**AS_JSON, "Idempotency-Key": "two words"}, "ingest"),
    (VOTE, {**AS_JSON, "X-Request-ID": "mine"}, "ingest"),
]
BATCH = b'{"votes": [%b, %b]}' % (VOTE, VOTE.replace(b"judge", b"jury").replace(b"tie", b"?"))
BATCHES = [
    (content if content in (b"", VOTE[:-1]) else BATCH.replace(VOTE, content), headers, scope)
    for content, headers, scope in REQUESTS
]


def roundabout(settings: Settings) -> FastAPI:
    """The service without its shortcut: every request goes through the framework."""
    app = create_app(settings)
    shortcuts = [each for each in app.user_middleware if each.cls is DirectEndpoints]
    assert len(shortcuts) == 1
    app.user_middleware.remove(shortcuts[0])
    return app


@pytest.fixture
def detour(settings: Settings, serving: Ask) -> Iterator[Client]:
    with serving(roundabout(settings)) as url, Client(base_url=url, timeout=120) as client:
        yield client


@pytest.mark.parametrize(
    ("path", "requests", "statuses"),
    [("/votes", REQUESTS, [201, 200, 409, 422, 400]), ("/votes/batch", BATCHES, [200, 200, 200, 200, 400])],
)
def test_the_shortcut_answers_as_the_framework_does(
    client: Client, detour: Client, keys: dict[str, str], path: str, requests: list[Any], statuses: list[int]
) -> None:
    def answers(of: Client) -> list[Any]:
        told = []
        for content, headers, scope in requests:
            shown = {"Authorization": f"Bearer {keys[scope]}"} if scope else {}
            response = of.post(f"/api/v1{path}", content=content, headers={**shown, **headers})
            body = {name: value for name, value in response.json().items() if name != "request_id"}
            names = sorted(name for name in response.headers if name not in ("date", "content-length"))
            told.append((response.status_code, body, names))
        return told

    first = answers(client)  # records the votes: from here on both see the same record
    direct, round_about = answers(client), answers(detour)
    assert [status for status, _, _ in first[: len(statuses)]] == statuses
    assert direct == round_about


def test_every_shortcut_is_a_documented_route() -> None:
    paths = create_app(Settings()).openapi()["paths"]
    for method, path in DIRECT_ENDPOINTS:
        assert method.lower() in paths[path]
