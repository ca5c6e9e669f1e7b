"""What a body says is taken as it is written: no number for a time, no number for yes."""

from collections.abc import Callable
from typing import Any

import pytest

Ask = Callable[..., Any]


@pytest.mark.parametrize("written", [1577836800, 1577836800.5, "1577836800", True, "2020-01-01T00:00:00Z", "1.1.2020"])
def test_a_day_is_written_as_one(ask: Ask, assert_problem: Ask, written: object) -> None:
    body = assert_problem(ask("POST", "/models", json={"name": "ant", "released": written}), 422, "invalid")
    assert body["errors"][0]["pointer"] == "/released"


@pytest.mark.parametrize("written", [0, 1577836800, "1577836800", "2020-01-01", "2020-01-01T00:00:00"])
@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/exports", {"what": "votes"}, "filters/since"),
        ("/keys", {"name": "a key", "scopes": ["read"]}, "expires_at"),
        ("/votes", {"model_a": "a", "model_b": "b", "winner": "tie", "annotator": "k"}, "voted_at"),
    ],
)
def test_a_moment_is_written_as_one(
    ask: Ask, assert_problem: Ask, path: str, body: dict[str, Any], field: str, written: object
) -> None:
    *outer, name = field.split("/")
    sent = {**body, **({outer[0]: {name: written}} if outer else {name: written})}
    problem = assert_problem(ask("POST", path, json=sent), 422, "invalid")
    assert [error["pointer"] for error in problem["errors"]] == [f"/{field}"]


@pytest.mark.parametrize("written", [0, 1, 1.0, "true", None])
def test_yes_and_no_are_written_as_such(ask: Ask, assert_problem: Ask, written: object) -> None:
    body = assert_problem(ask("POST", "/refits", json={"accept_exclusions": written}), 422, "invalid")
    assert body["errors"][0]["pointer"] == "/accept_exclusions"
