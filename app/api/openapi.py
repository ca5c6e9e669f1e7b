"""The OpenAPI description: what FastAPI derives by itself, and what all operations have in common."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from app.api.kept_answers import Kept
from app.api.problems import Problem, problem_responses
from app.guard.refusals import PREFIX
from app.guard.strangers import open_to_all

_FRAMEWORKS_OWN = ("HTTPValidationError", "ValidationError")


def install_openapi(app: FastAPI, *, public_leaderboard: bool, bodies: Sequence[type[BaseModel]]) -> None:
    """Complete the application's description and serve it; `bodies` are the models that endpoints parse themselves."""

    def describe() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _describe(app, public_leaderboard=public_leaderboard, bodies=bodies)
        return app.openapi_schema

    @cache
    def kept() -> Kept:
        return Kept.of(JSONResponse(describe()))

    async def answer(request: Request) -> Response:
        return await kept().answer(request)

    app.openapi = describe  # type: ignore[method-assign]  # as FastAPI documents it
    app.add_api_route(f"{PREFIX}/openapi.json", answer, include_in_schema=False, dependencies=[open_to_all])


def _describe(app: FastAPI, *, public_leaderboard: bool, bodies: Sequence[type[BaseModel]]) -> dict[str, Any]:
    schema = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes, tags=app.openapi_tags
    )
    schemas = schema.setdefault("components", {}).setdefault("schemas", {})
    for name in _FRAMEWORKS_OWN:
        schemas.pop(name, None)
    described: list[type[BaseModel]] = [Problem, *bodies]
    _, own = models_json_schema(
        [(model, "validation") for model in described], ref_template="#/components/schemas/{model}"
    )
    schemas.update(own["$defs"])
    _suit_generators(schema)
    for path in schema["paths"].values():
        for operation in path.values():
            _complete(operation, public=public_leaderboard)
    return schema


def _suit_generators(part: Any) -> None:
    """Rewrite what generators of clients read wrongly, with the same meaning.

    A constant becomes an enumeration of one: in unions they take the constant for the only value. A default of null,
    which says nothing, goes: a property with a default would be one that every request has to send.
    """
    if isinstance(part, dict):
        if isinstance(part.get("const"), str):
            part["enum"] = [part.pop("const")]
        if part.get("default", ...) is None:
            del part["default"]
        for inner in part.values():
            _suit_generators(inner)
    elif isinstance(part, list):
        for inner in part:
            _suit_generators(inner)


def _complete(operation: dict[str, Any], *, public: bool) -> None:
    """Take the summary from the docstring's first line and add the problems that every such operation may answer."""
    summary, _, rest = operation["description"].partition("\n\n")
    operation |= {"summary": summary.removesuffix("."), "description": rest or summary}
    statuses = {422, 500}  # any operation refuses query parameters that it does not know
    if operation.get("security") == [{"apiKey": []}]:  # of the leaderboard, which may be public
        # Where it is public no key is named at all: of an optional one, generated clients make a demand.
        operation["security"] = [] if public else [{"apiKey": ["read"]}]
    if "security" in operation:
        statuses |= {401, 403, 429, 503}
    if "requestBody" in operation:
        statuses |= {400, 408, 413, 415}
    responses = operation["responses"]
    for status, response in problem_responses(*sorted(statuses)).items():
        # This also replaces the 422 that FastAPI adds where an endpoint declares none.
        responses[str(status)] = response
    operation["responses"] = dict(sorted(responses.items()))
