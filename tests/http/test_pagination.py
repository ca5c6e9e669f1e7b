"""Cursors that somebody made up: what stands in them is as hostile as any other input."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from httpx import Client

Ask = Callable[..., Any]

NOBODY = "00000000-0000-0000-0000-000000000000"
LONG_AGO, LATE = "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"
HOSTILE = [-1, 2**31, 2**63, 1e308, True, "\x00", "\ud800", NOBODY, LONG_AGO, LATE, "2026-01-01T00:00:00"]


def cursor_of(*position: object) -> str:
    return urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")


def paged(paths: dict[str, Any]) -> list[str]:
    """Paths of the lists that come in pages."""
    return [
        path
        for path, operations in paths.items()
        if any(parameter["name"] == "cursor" for parameter in operations.get("get", {}).get("parameters", []))
    ]


def test_no_list_fails_over_a_cursor(ask: Ask, client: Client, vote: Callable[..., None], refit: Ask) -> None:
    vote(annotator="judge")
    refit()
    paths = paged(client.get("/api/v1/openapi.json").json()["paths"])
    assert len(paths) >= 12
    positions = [
        *product(HOSTILE),
        *product(HOSTILE, repeat=2),
        *((NOBODY, *pair) for pair in product(HOSTILE, repeat=2)),
    ]
    for path in paths:
        known = path.removeprefix("/api/v1").replace("{annotator}", "judge").replace("{webhook_id}", NOBODY)
        assert "{" not in known, path
        for position in positions:
            answer = ask("GET", known, params={"cursor": cursor_of(*position)})
            assert answer.status_code in (200, 404, 422), (known, position, answer.text)


@pytest.mark.parametrize(
    ("path", "position"),
    [
        ("/snapshots", (2**31,)),
        ("/audit", (2**63,)),
        ("/models", ("\x00",)),
        ("/annotators", (1.0, 2**31)),
        ("/refits", (LONG_AGO, NOBODY)),
        ("/imports", (LATE, NOBODY)),
    ],
)
def test_a_position_that_nothing_can_have_is_no_cursor(
    ask: Ask, assert_problem: Ask, path: str, position: tuple[object, ...]
) -> None:
    assert_problem(ask("GET", path, params={"cursor": cursor_of(*position)}), 422, "invalid")
