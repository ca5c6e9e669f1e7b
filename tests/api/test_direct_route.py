from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

import pytest
from fastapi.routing import APIRoute, request_response
from httpx import Client

from app.api.submissions import DirectRoute
from app.main import create_app
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
BATTLE = b'{"annotator": "judge", "candidates": ["a", "b"]}'
BATTLES = [
    (BATTLE, {**AS_JSON, "Idempotency-Key": "b"}, "ingest"),  # others would draw another battle each time
    (BATTLE, {**AS_JSON, "Idempotency-Key": "b"}, "read"),
    (BATTLE.replace(b"b", b"c"), AS_JSON, "ingest"),
    (BATTLE[:-1], AS_JSON, "ingest"),
    (BATTLE, {"Content-Type": "text/plain"}, "ingest"),
    (b"", {}, "ingest"),
    (BATTLE, AS_JSON, None),
    (BATTLE, {**AS_JSON, "Authorization": "Basic x"}, None),
    (BATTLE, {**AS_JSON, "X-Request-ID": "mine"}, "ingest"),
]
SEALED = b'{"token": "forged", "winner": "left"}'
SEALED_VOTES = [
    (SEALED, AS_JSON, None),
    (SEALED, AS_JSON, "ingest"),
    (SEALED, AS_JSON, "read"),
    (SEALED, {}, None),
    (SEALED.replace(b"left", b"model_a"), AS_JSON, None),
    (SEALED.replace(b"left", b"x" * 5000), AS_JSON, None),
    (b'["token"]', AS_JSON, None),
    (SEALED, {**AS_JSON, "Authorization": "Basic x"}, None),
]


@pytest.fixture
def plain(settings: Settings, serving: Ask) -> Iterator[Client]:
    """The service with FastAPI's own way of calling the endpoints."""
    app = create_app(settings)
    app.router.routes[:] = [_by_framework(route) if isinstance(route, DirectRoute) else route for route in app.routes]
    with serving(app) as url, Client(base_url=url, timeout=120) as client:
        yield client


def _by_framework(route: DirectRoute) -> DirectRoute:
    """A copy that FastAPI calls: a route makes its handler when it is made, so that no later patch changes it."""
    plain = copy(route)
    plain.app = request_response(APIRoute.get_route_handler(plain))
    return plain


@pytest.mark.parametrize(
    ("path", "requests", "statuses"),
    [
        ("/votes", REQUESTS, [201, 200, 409, 422, 400]),
        ("/votes", SEALED_VOTES, [422, 422, 403, 415, 422, 401, 401, 401]),
        ("/votes/batch", BATCHES, [200, 200, 200, 200, 400]),
        ("/battles", BATTLES, [201, 403, 422, 400]),
    ],
)
def test_the_route_answers_as_the_framework_does(
    client: Client, plain: Client, keys: dict[str, str], path: str, requests: list[Any], statuses: list[int]
) -> None:
    def answers(of: Client) -> list[Any]:
        received = []
        for content, headers, scope in requests:
            shown = {"Authorization": f"Bearer {keys[scope]}"} if scope else {}
            parameters = "?dry=1" if headers.get("X-Request-ID") else ""
            response = of.post(f"/api/v1{path}{parameters}", content=content, headers={**shown, **headers})
            body = {name: value for name, value in response.json().items() if name != "request_id"}
            names = sorted(name for name in response.headers if name not in ("date", "content-length"))
            received.append((response.status_code, body, names))
        return received

    for name in ("a", "b"):  # models that battles may show; votes find them there
        admin = {"Authorization": f"Bearer {keys['admin']}"}
        assert client.post("/api/v1/models", json={"name": name}, headers=admin).status_code == 201
    first = answers(client)  # records the votes: from here on both see the same record
    direct, by_framework = answers(client), answers(plain)
    assert [status for status, _, _ in first[: len(statuses)]] == statuses
    assert direct == by_framework
