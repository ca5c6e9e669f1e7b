"""Bodies that are parsed by pydantic straight from the bytes, after the caller's key was checked."""

import json
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from app.http.problems import MalformedBodyError, MediaTypeError, validation_error

Model = TypeVar("Model", bound=BaseModel)


async def json_content(request: Request) -> None:
    """Refuse a body that is not said to be JSON or, where the framework has parsed it, is ambiguous.

    A request without a body passes.

    Raises
    ------
    MediaTypeError, MalformedBodyError
    """
    headers = request.headers
    if headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
        return
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise MediaTypeError("send the body as JSON: Content-Type: application/json")
    if getattr(request.scope.get("route"), "body_field", None) is not None:
        refuse_ambiguous(await request.body())


def parse_body(model: type[Model], body: bytes, unless: Callable[[Model], bool] = lambda _: False) -> Model:
    """Return the body as the model, strictly by its schema; `unless` spares the look for ambiguity where there is none.

    Raises
    ------
    MalformedBodyError, BadInputError
    """
    try:
        parsed = model.model_validate_json(body)
    except ValidationError as error:
        raise validation_error(error.errors(include_url=False, include_input=False)) from None
    if not unless(parsed):
        refuse_ambiguous(body)
    return parsed


def refuse_ambiguous(body: bytes) -> None:
    """Refuse JSON that parsers read differently: a name twice in one object, or NaN and Infinity, which are no JSON.

    Raises
    ------
    MalformedBodyError
    """
    try:
        json.loads(body, object_pairs_hook=_as_object, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deep" if isinstance(error, RecursionError) else error
        raise MalformedBodyError(f"the body is not valid JSON: {reason}") from None


def _as_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise ValueError(f"an object has the name {twice[:100]!r} more than once")
    return content


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def json_body(model: type[Model]) -> Callable[[Request], Awaitable[Model]]:
    """Return the dependency that yields the body as the model; name it after the one that yields the caller."""

    async def body(request: Request) -> Model:
        return parse_body(model, await request.body())

    return body


async def raw_body(request: Request) -> bytes:
    """Return the body unparsed, for an endpoint that parses it off the event loop."""
    return await request.body()


def documented_body(model: type[BaseModel]) -> dict[str, Any]:
    """Return the `openapi_extra` of a route that reads such a body."""
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
