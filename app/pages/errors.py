"""Errors as pages: the same problem that the API answers, with what to do next."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

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
_AFTER_A_FAILURE = "Reload the page. If it fails again, give the request id below to the people who run this arena."
_OTHERWISE = "Go back and try again."


def problem_page(scope: Scope, problem: Mapping[str, Any], headers: Mapping[str, str]) -> Response:
    """Return a problem as a page, or as a notice on the page that asked for a part of itself by htmx."""
    request, status = Request(scope), int(problem["status"])
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
