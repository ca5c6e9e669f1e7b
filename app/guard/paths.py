"""Paths of requests: the API's prefix, and how paths are shown in logs and metrics."""

from typing import Any
from uuid import UUID

from starlette.types import Scope

PREFIX = "/api/v1"
"""Of the paths of the API."""

HIDDEN = "-"
"""Stands for an annotator's key in paths that are logged."""

_BEFORE_KEYS = "/annotators/"


def without_keys(path: str) -> str:
    """Return a request's path with a dash in place of an annotator's key; ids stay.

    For example, `/annotators/ann@example.org/history` becomes `/annotators/-/history`.
    """
    before, found, rest = path.partition(_BEFORE_KEYS)
    if not found:
        return path
    reference, slash, tail = rest.rpartition("/")
    if not slash or not tail.isalpha() or _is_id(rest):
        # The whole rest is the key, with its slashes, unless a plain word such as /history follows it.
        reference, slash, tail = rest, "", ""
    return f"{before}{found}{reference if _is_id(reference) else HIDDEN}{slash}{tail}"


def _is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def template_of(scope: Scope) -> str:
    """Return the path of the request's route, with its parameters' names; "none" if no route was found."""
    route: Any = scope.get("route")
    if route is None:
        return "none"
    path: str = route.path_format  # as the API description has it
    # A route of an included router has its path without the router's prefix.
    return path if path.startswith(PREFIX) or not scope["path"].startswith(PREFIX) else PREFIX + path
