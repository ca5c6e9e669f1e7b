"""Errors as pages: the same problem that the API answers, with what to do next."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Scope

from app.auth.sessions.service import SIGN_IN_PATH
from app.guard.errors import SignInNeededError
from app.pages.rendering import render

_ADVICE = {
    401: "Sign in, or ask the people who run this arena for a key.",
    403: "Ask an admin of this arena for a key that allows it.",
    404: "Check the address, or start from the leaderboard.",
    405: "Go back and try again from the page that you came from.",
    422: "Check the address. What is wrong is named above.",
    429: "Wait a moment, then reload the page.",
    503: "Reload the page in a few seconds.",
}
_SIGN_IN_NEEDED = f"/problems/{SignInNeededError.code}"
_AFTER_A_FAILURE = "Reload the page. If it fails again, give the request id below to the people who run this arena."
_OTHERWISE = "Go back and try again."


def problem_page(scope: Scope, problem: Mapping[str, Any], headers: Mapping[str, str]) -> Response:
    """Return a problem as a page, or as a notice on the page that asked for a part of itself by htmx."""
    request, status = Request(scope), int(problem["status"])
    if problem["type"] == _SIGN_IN_NEEDED and (signing_in := _to_sign_in(request)) is not None:
        return signing_in
    advice = _ADVICE.get(status, _AFTER_A_FAILURE if status >= HTTPStatus.INTERNAL_SERVER_ERROR else _OTHERWISE)
    partial = "hx-request" in request.headers
    placed = {"HX-Retarget": "#notices", "HX-Reswap": "innerHTML", "HX-Reselect": ".notice"} if partial else {}
    return render(
        request,
        "templates/notice.html" if partial else "templates/error.html",
        status=status,
        headers={**headers, **placed, "Cache-Control": "no-store", "Vary": "Accept, HX-Request"},
        problem=problem,
        advice=advice,
    )


def _to_sign_in(request: Request) -> Response | None:
    """Return the way to the sign-in page and back; None after a form, which would be lost."""
    if "hx-request" in request.headers:
        page = _path_of(request.headers.get("hx-current-url", ""))
        return Response(status_code=HTTPStatus.UNAUTHORIZED, headers={"HX-Redirect": _sign_in_address(page)})
    if request.method != "GET":
        return None
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(
        _sign_in_address(request.url.path + query), HTTPStatus.SEE_OTHER, {"Cache-Control": "no-store"}
    )


def _path_of(address: str) -> str:
    try:
        return urlsplit(address).path
    except ValueError:
        return ""  # no browser sends it


def _sign_in_address(page: str) -> str:
    return f"{SIGN_IN_PATH}?after={quote(page)}"
