"""The description, as far as generators of clients stumble over what is allowed."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI

from app.main import create_app
from app.settings import Settings

METHODS = {"get", "post", "put", "patch", "delete"}


@pytest.fixture(scope="module")
def description(usual_app: FastAPI) -> dict[str, Any]:
    return usual_app.openapi()


def parts(part: Any) -> Iterator[dict[str, Any]]:
    if isinstance(part, dict):
        yield part
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from parts(inner)


def operations(description: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{method} {path.removeprefix('/api/v1')}": one
        for path, verbs in description["paths"].items()
        for method, one in verbs.items()
        if method in METHODS
    }


def test_each_schema_has_a_name_of_its_own(description: dict[str, Any]) -> None:
    schemas = description["components"]["schemas"]
    titles = Counter(schema.get("title", name) for name, schema in schemas.items())
    assert titles.most_common(1)[0][1] == 1, titles.most_common(3)
    assert not [name for name in schemas if name.endswith(("-Input", "-Output"))]


def test_each_operation_has_an_id_of_its_own(description: dict[str, Any]) -> None:
    ids = [one["operationId"] for one in operations(description).values()]
    assert len(set(ids)) == len(ids)


def test_no_union_has_a_constant(description: dict[str, Any]) -> None:
    assert not [part for part in parts(description["components"]) if isinstance(part.get("const"), str)]
    assert {"type": "string", "enum": ["estimated"]} in list(parts(description["components"]["schemas"]["Policy"]))


def test_what_may_be_left_out_has_no_default_of_null(description: dict[str, Any]) -> None:
    assert not [part for part in parts(description) if part.get("default", ...) is None]
    assert "battle_id" not in description["components"]["schemas"]["Vote"]["required"]


def test_what_is_public_asks_for_no_key(description: dict[str, Any]) -> None:
    assert operations(description)["get /leaderboard"]["security"] == []


@pytest.mark.campaign
def test_what_is_closed_asks_for_a_key() -> None:
    closed = create_app(Settings(public_leaderboard=False)).openapi()
    assert operations(closed)["get /leaderboard"]["security"] == [{"apiKey": ["read"]}]


def test_each_json_answer_has_one_shape(description: dict[str, Any]) -> None:
    for name, one in operations(description).items():
        for status, answer in one["responses"].items():
            schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
            assert not {"anyOf", "oneOf"} & schema.keys(), (name, status)


def test_a_file_is_sent_as_bytes(description: dict[str, Any]) -> None:
    content = operations(description)["post /imports"]["requestBody"]["content"]
    assert content["application/octet-stream"]["schema"] == {"type": "string", "format": "binary"}
