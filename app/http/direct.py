from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.errors import StableArenaError
from app.http.problems import problem_response
from app.http.process_metrics import note_template

DirectEndpoint = Callable[[Request], Awaitable[Response]]


class DirectEndpoints:
    """Serves the few endpoints that are called thousands of times a second without the framework's detours.

    FastAPI's routing and solving of dependencies cost several times what such an endpoint does. The endpoint is
    declared as a route like every other, which documents it; here the same function is called at once. It sees to
    the caller, the media type and the body itself; what it raises becomes a problem, as everywhere.
    """

    def __init__(self, app: ASGIApp, endpoints: dict[tuple[str, str], DirectEndpoint]) -> None:
        self._app = app
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        endpoint = self._endpoints.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        if endpoint is None:
            await self._app(scope, receive, send)
            return
        note_template(scope)
        try:
            response = await endpoint(Request(scope, receive))
        except StableArenaError as error:
            response = problem_response(scope, error)
        await response(scope, receive, send)
