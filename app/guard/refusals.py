"""Errors as RFC 9457 problems, or as pages for people. Only this module maps errors to HTTP statuses."""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.routing import iter_route_contexts
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Scope

from app.errors import (
    BadInputError,
    ConflictError,
    FieldError,
    GoneError,
    NotAuthenticatedError,
    NotFoundError,
    PreconditionFailedError,
    ScopeMissingError,
    StableArenaError,
    UnavailableError,
)
from app.guard.errors import (
    BodyTooLargeError,
    BodyTooSlowError,
    ForgedRequestError,
    HeadTooLargeError,
    InsecureConnectionError,
    MalformedBodyError,
    MalformedRequestError,
    MediaTypeError,
    MethodNotAllowedError,
    RateLimitedError,
)

PREFIX = "/api/v1"
"""Of the paths of the API, where an error is never a page."""
MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 2
NOT_SNIFFED = (b"x-content-type-options", b"nosniff")
"""The header of every answer: browsers take it for nothing but what it says it is."""
_SHOWN_ERRORS = 100
_PARAMETER = re.compile(r"{[^}]*}")
_IN_PATHS = "/:@!$&'()*+,;="  # characters that RFC 3986 allows in a path, beside letters and digits


# The status of a class is also that of its subclasses without a line of their own.
STATUS: dict[type[StableArenaError], int] = {
    StableArenaError: 500,
    MalformedRequestError: 400,
    MalformedBodyError: 400,
    NotAuthenticatedError: 401,
    ScopeMissingError: 403,
    ForgedRequestError: 403,
    InsecureConnectionError: 403,
    NotFoundError: 404,
    MethodNotAllowedError: 405,
    ConflictError: 409,
    BodyTooSlowError: 408,
    GoneError: 410,
    PreconditionFailedError: 412,
    BodyTooLargeError: 413,
    MediaTypeError: 415,
    BadInputError: 422,
    RateLimitedError: 429,
    HeadTooLargeError: 431,
    UnavailableError: 503,
}


def problem_response(scope: Scope, error: StableArenaError) -> Response:
    """Return the error as an HTTP response."""
    status = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    headers = {}
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        scope.setdefault("state", {})["failure"] = error.detail  # for the log
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = str(RETRY_SECONDS)
    if isinstance(error, RateLimitedError):
        headers["Retry-After"] = str(error.retry_seconds)
    detail = error.detail if error.public else "the service's log has the reason"
    return _render(scope, status, error.code, error.title, detail, error.errors, headers, error.extensions)


def http_problem_response(scope: Scope, error: HTTPException) -> Response:
    """Return the problem for what the framework refuses: an unknown path or method, a body that is not JSON."""
    status = HTTPStatus(error.status_code)
    if status == HTTPStatus.BAD_REQUEST:
        return problem_response(scope, MalformedBodyError("the body cannot be read as JSON"))
    if status == HTTPStatus.NOT_FOUND:
        return problem_response(scope, NotFoundError(f"there is nothing at {_shown_path(scope)}"))
    code, title = status.phrase.lower().replace(" ", "-"), status.phrase
    detail = f"{scope['method']} {_shown_path(scope)}: {status.phrase.lower()}"
    headers = dict(error.headers or {})
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(sorted(_methods(scope)))
        code, title = MethodNotAllowedError.code, MethodNotAllowedError.title
    return _render(scope, status, code, title, detail, (), headers, {})


def _methods(scope: Scope) -> set[str]:
    """Return the methods of all routes at the path; the framework names those of one route.

    A parameter may match more than its route means: `/models/{name:path}` matches `/models/a/aliases` too. So only the
    routes count with the longest part of the path outside of parameters.
    """
    routes = [route for route in iter_route_contexts(scope["app"].routes) if route.path_regex.match(scope["path"])]
    longest = max((_fixed_length(route.path or "") for route in routes), default=0)
    found = {method for route in routes if _fixed_length(route.path or "") == longest for method in route.methods or ()}
    return found | {"HEAD"} if "GET" in found else found


def _fixed_length(path: str | None) -> int:
    return len(_PARAMETER.sub("", path or ""))


def _render(
    scope: Scope,
    status: int,
    code: str,
    title: str,
    detail: str,
    errors: tuple[FieldError, ...],
    headers: dict[str, str],
    extensions: Mapping[str, str | int],
) -> Response:
    body: dict[str, Any] = {
        "type": f"/problems/{code}",
        "title": title,
        "status": int(status),
        "detail": detail,
        "instance": quote(_shown_path(scope), safe=_IN_PATHS, errors="replace"),
        "request_id": scope.get("state", {}).get("request_id", ""),
        "errors": [{"pointer": error.pointer, "detail": error.detail} for error in errors[:_SHOWN_ERRORS]],
        **extensions,
    }
    if _asks_for_page(scope):
        page: Response = scope["app"].state.problem_page(scope, _storable(body), headers)
        return page
    return JSONResponse(_storable(body), int(status), headers, media_type=MEDIA_TYPE)


def _asks_for_page(scope: Scope) -> bool:
    """Whether the request is for a page: its route answers with HTML, or a browser asks outside the API."""
    if scope["path"].startswith(f"{PREFIX}/"):
        return False
    answers = getattr(scope.get("route"), "response_class", None)
    return answers is HTMLResponse or "text/html" in Headers(scope=scope).get("accept", "")


def _shown_path(scope: Scope) -> str:
    """Return the path, without an annotator's key where `RequestLogMiddleware` hides it."""
    return str(scope.get("state", {}).get("shown_path", scope["path"]))


def _storable(body: Any) -> Any:
    """Replace halves of surrogate pairs: a path or a field's name may have them, and UTF-8 cannot encode them."""
    if isinstance(body, str):
        return body.encode("utf-8", "replace").decode()
    if isinstance(body, dict):
        return {key: _storable(value) for key, value in body.items()}
    return [_storable(value) for value in body] if isinstance(body, list) else body
