"""Problems (RFC 9457) as the API's description and its endpoints have them; `app.guard.refusals` makes the answers."""

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Scope

from app.errors import BadInputError, FieldError, StableArenaError, validation_message
from app.guard.admission import is_decided
from app.guard.errors import MalformedBodyError, RateLimitedError
from app.guard.refusals import MEDIA_TYPE, http_problem_response, problem_response
from app.guard.strangers import count_open
from app.naming.names import NAME_PATTERN

ProblemPage = Callable[[Scope, Mapping[str, Any], Mapping[str, str]], Response]
"""Makes a page of a problem and the answer's headers."""


class ProblemFieldError(BaseModel):
    """One place in the input and what is wrong there."""

    pointer: str = Field(description="JSON pointer into the body, or /name of a parameter.", examples=["/winner"])
    detail: str = Field(description="What is wrong there.")


class Problem(BaseModel):
    """Why a request failed (RFC 9457). Some types have further members."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="The type: /problems/ and its code.", examples=["/problems/invalid"])
    title: str = Field(description="The same for every occurrence of the type.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What happened this time.")
    instance: str = Field(description="The path of the request, percent-encoded.")
    request_id: str = Field(description="Also in the X-Request-ID header and in the service's log.")
    errors: list[ProblemFieldError] = Field(default=[], description="The places in the input that are wrong.")


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route that answers these statuses with a problem.

    Those of keys, bodies and parameters stand in the API's description anyhow (`app.api.openapi`).
    """
    return {
        status: {"description": HTTPStatus(status).phrase, "content": {MEDIA_TYPE: {"schema": PROBLEM_SCHEMA}}}
        for status in statuses
    }


PROBLEM_SCHEMA = {"$ref": "#/components/schemas/Problem"}


def validation_error(errors: Sequence[Mapping[str, Any]]) -> StableArenaError:
    """Return pydantic's errors as one of ours, without the values that were sent."""
    broken = next((e for e in errors if e["type"] in ("json_invalid", "missing_body")), None)
    if broken is not None:
        reason = broken.get("ctx", {}).get("error") or broken["msg"]
        return MalformedBodyError(f"the body is not valid JSON: {reason}")
    return invalid_input(field_errors(errors))


def field_errors(errors: Sequence[Mapping[str, Any]]) -> tuple[FieldError, ...]:
    """Return pydantic's errors as places in the input."""
    return tuple(FieldError(_pointer(e["loc"]), _message(e)) for e in errors)


def invalid_input(errors: tuple[FieldError, ...]) -> BadInputError:
    """Return the error of an input that is wrong at these places; its detail names the first."""
    rest = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    first = f"{errors[0].pointer}: {errors[0].detail}" if errors[0].pointer else errors[0].detail
    return BadInputError(first + rest, errors)


def install_problem_handlers(app: FastAPI, page: ProblemPage) -> None:
    """Make the application answer every error with a problem, or with `page` of it where a page was asked for."""
    app.state.problem_page = page

    @app.exception_handler(StableArenaError)
    async def own(request: Request, error: StableArenaError) -> Response:
        return problem_response(request.scope, error)

    @app.exception_handler(RequestValidationError)
    async def validation(request: Request, error: RequestValidationError) -> Response:
        return problem_response(request.scope, validation_error(error.errors()))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        if not is_decided(request.scope):  # no route was found
            try:
                await count_open(request)
            except RateLimitedError as refused:
                return problem_response(request.scope, refused)
        return http_problem_response(request.scope, error)


def _pointer(location: Sequence[str | int]) -> str:
    # FastAPI puts the kind of place first: body, query, path or header.
    parts = location[1:] if location and location[0] in ("body", "query", "path", "header") else location
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in parts)


def _message(error: Mapping[str, Any]) -> str:
    if error["type"] == "string_pattern_mismatch" and error["ctx"]["pattern"] == NAME_PATTERN:
        return "must not be blank, start or end with a blank, or contain control characters"
    return validation_message(error)
