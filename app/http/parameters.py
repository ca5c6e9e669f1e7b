"""Query parameters that an endpoint does not declare are refused: a misspelt one would have no effect otherwise."""

from collections.abc import Iterator
from difflib import get_close_matches

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from app.errors import FieldError
from app.http.problems import invalid_input


async def refuse_unknown_parameters(request: Request) -> None:
    """Check that the request's route declares every query parameter.

    Raises
    ------
    BadInputError
        It names each unknown parameter and the most similar declared one.
    """
    route = request.scope.get("route")
    if not request.scope["query_string"] or not isinstance(route, APIRoute) or not route.include_in_schema:
        return  # pages for people ignore what a link adds, such as ?utm_source
    known = sorted(_declared(route.dependant))
    unknown = [name for name in dict.fromkeys(request.query_params) if name not in known]
    if unknown:
        raise invalid_input(tuple(FieldError(f"/{name}", _explain(name, known)) for name in unknown))


def _declared(dependant: Dependant) -> Iterator[str]:
    for parameter in dependant.query_params:
        yield parameter.alias
    for dependency in dependant.dependencies:
        yield from _declared(dependency)


def _explain(name: str, known: list[str]) -> str:
    similar = get_close_matches(name, known, n=1)
    if similar:
        return f"is not a parameter of this endpoint; did you mean {similar[0]}?"
    return f"is not a parameter of this endpoint, which has {', '.join(known) or 'none'}"
