"""Routes that anyone may read: their answers are kept."""

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Header, Request, Response
from fastapi.routing import APIRoute

from app.api.dependencies import check_parameters, declared_parameters, known_query
from app.api.kept_answers import KeptAnswers
from app.guard.admission import admissions_of
from app.state import state_of


class PublicRoute(APIRoute):
    """A route whose answers depend on what is published, the path and the known parameters alone; see `KeptAnswers`.

    Who asks is decided for every request, and counted. Parameters that the route does not know are refused, or left
    out of the request where it is for a page: no answer is made for them. A stream is not kept.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function that answers a request."""
        make, admissions = super().get_route_handler(), admissions_of(self.dependant)
        if self.is_sse_stream:
            return make

        known, is_page = declared_parameters(self.dependant), not self.include_in_schema

        async def handle(request: Request) -> Response:
            readers = [await admission(request) for admission in admissions]
            if request.scope["query_string"]:
                if not is_page:
                    check_parameters(request.query_params, known)
                request.scope["query_string"] = known_query(request.query_params, known)
                request = Request(request.scope, request.receive)
            return await state_of(request.scope)[KeptAnswers].answer(request, make, stranger=not any(readers))

        return handle


async def _describe(if_none_match: Annotated[str | None, Header()] = None) -> None:
    """Let the API's description name the header, which `KeptAnswers` reads."""


revalidated = Depends(_describe)
"""Says of an endpoint that it answers 304 to a request whose `If-None-Match` names the current `ETag`."""
