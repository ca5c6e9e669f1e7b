from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.routing import APIRoute

from app.auth.callers import Caller
from app.http.dependencies import (
    authorise,
    bearer_secret,
    refuse_unknown_parameters,
    require_json,
)
from app.http.openapi import operation_id
from app.http.paths import PREFIX
from app.http.token_requests import optional_ingest


class DirectRoute(APIRoute):
    """A route whose dependencies are called directly: FastAPI's solver takes as long as everything else for a vote.

    The endpoint takes the caller, who has scope `ingest`, and the request. It declares the same dependencies, so
    FastAPI documents it like every other. A test compares the answers of both ways.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function that answers a request."""

        async def handle(request: Request) -> Response:
            if request.scope["query_string"]:
                await refuse_unknown_parameters(request)
            await require_json(request)
            response: Response = await self.endpoint(await self.authorise(request), request)
            return response

        return handle

    async def authorise(self, request: Request) -> Caller | None:
        """Return the holder of the request's key."""
        return await authorise(request, "ingest", bearer_secret(request))


class TokenRoute(DirectRoute):
    """A route that ingest tokens may use too."""

    async def authorise(self, request: Request) -> Caller | None:
        """Return the holder of the request's key or ingest token."""
        return await authorise(request, "ingest", bearer_secret(request), tokens=True)


class OpenRoute(DirectRoute):
    """A route that a request without a key may reach: a battle's token in its body may authorise it."""

    async def authorise(self, request: Request) -> Caller | None:
        """Return the holder of the request's key or ingest token; None for a request without either."""
        return await optional_ingest(request, bearer_secret(request))


def direct_router(path: str, tag: str, route_class: type[DirectRoute]) -> APIRouter:
    """Return a router for routes at a path. It is not included but its routes are appended, which are found sooner."""
    return APIRouter(
        prefix=f"{PREFIX}{path}",
        tags=[tag],
        route_class=route_class,
        generate_unique_id_function=operation_id,
        dependencies=[Depends(refuse_unknown_parameters), Depends(require_json)],
    )
