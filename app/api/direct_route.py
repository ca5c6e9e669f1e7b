from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.routing import APIRoute

from app.api.dependencies import refuse_unknown_parameters, require_json
from app.api.openapi import operation_id
from app.guard.admission import admissions_of
from app.guard.paths import PREFIX


class DirectRoute(APIRoute):
    """A route whose dependencies are called directly: FastAPI's solver takes as long as everything else for a vote.

    The endpoint takes what its one admission returns, the caller, and the request. It declares the same dependencies,
    so FastAPI documents it like every other. A test compares the answers of both ways.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function that answers a request."""
        (admission,) = admissions_of(self.dependant)

        async def handle(request: Request) -> Response:
            if request.scope["query_string"]:
                await refuse_unknown_parameters(request)
            await require_json(request)
            response: Response = await self.endpoint(await admission(request), request)
            return response

        return handle


def direct_router(path: str, tag: str) -> APIRouter:
    """Return a router for routes at a path. It is not included but its routes are appended, which are found sooner."""
    return APIRouter(
        prefix=f"{PREFIX}{path}",
        tags=[tag],
        route_class=DirectRoute,
        generate_unique_id_function=operation_id,
        dependencies=[Depends(refuse_unknown_parameters), Depends(require_json)],
    )
