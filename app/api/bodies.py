"""Bodies that are parsed by pydantic straight from the bytes, after the caller's key was checked."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from app.api.problems import MediaTypeError, validation_error

Model = TypeVar("Model", bound=BaseModel)


async def json_content(request: Request) -> None:
    """Refuse a body that is not said to be JSON; a request without a body passes.

    Raises
    ------
    MediaTypeError
    """
    headers = request.headers
    if headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
        return
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise MediaTypeError("send the body as JSON: Content-Type: application/json")


def parse_body(model: type[Model], body: bytes) -> Model:
    """Return the body as the model, strictly by its schema.

    Raises
    ------
    MalformedBodyError, BadInputError
    """
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise validation_error(error.errors(include_url=False, include_input=False)) from None


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
