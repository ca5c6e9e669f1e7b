"""How votes and battles are submitted: routes that are called directly, by a key or by a battle's token in the body."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic_core import from_json
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from app.api.dependencies import refuse_unknown_parameters
from app.auth.battle_tokens import BattleTokens, ForgedTokenError
from app.auth.callers import Caller
from app.errors import NotAuthenticatedError
from app.guard.admission import admissions_of, authorise, key_dependency
from app.guard.bodies import require_json
from app.guard.limits import RateLimits
from app.guard.refusals import PREFIX
from app.state import state_of

_TOKEN_BODY = 4096  # bytes: more than a body with a token needs


def documented_body(*models: type[BaseModel]) -> dict[str, Any]:
    """Return the `openapi_extra` of a route that itself parses a body of one of these kinds."""
    schemas: list[dict[str, Any]] = [{"$ref": f"#/components/schemas/{model.__name__}"} for model in models]
    schema = schemas[0] if len(schemas) == 1 else {"oneOf": schemas}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def operation_id(route: APIRoute) -> str:
    """Return the endpoint's name, which generated clients use for their functions."""
    return route.name


class DirectRoute(APIRoute):
    """A route whose dependencies are called directly: with FastAPI's solver votes take 26 % more processor time.

    The endpoint takes what its one admission returns, the caller, and the request. It declares the same dependencies,
    so FastAPI documents it like every other. A test compares the answers of both ways.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        (admission,) = admissions_of(self.dependant)

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            request = Request(scope, receive, send)
            if scope["query_string"]:
                await refuse_unknown_parameters(request)
            await require_json(request)
            response: Response = await self.endpoint(await admission(request), request)
            await response(scope, receive, send)

        self.app = answer

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Compare the path as text first, which is quicker where it is another one: these routes are asked first."""
        return super().matches(scope) if scope["path"].endswith(self.path) else (Match.NONE, {})


def direct_router(path: str, tag: str) -> APIRouter:
    """Return a router for routes at a path. It is not included but its routes are appended, which are found sooner."""
    return APIRouter(
        prefix=f"{PREFIX}{path}",
        tags=[tag],
        route_class=DirectRoute,
        generate_unique_id_function=operation_id,
        dependencies=[Depends(refuse_unknown_parameters), Depends(require_json)],
    )


def _key_or_none(*, tokens: bool) -> Any:
    """Return a dependency that yields the caller, who needs scope `ingest`; None for a request without a key.

    A battle's token may replace the key: the endpoint looks for it in the body. Without a key, a body that is longer
    than one with a token needs, or does not say how long it is, is refused. Raises NotAuthenticatedError,
    ScopeMissingError or RateLimitedError.
    """

    async def admit(request: Request) -> Caller | None:
        if "authorization" in request.headers:
            return await authorise(request, "ingest", tokens=tokens)
        if int(request.headers.get("content-length", _TOKEN_BODY + 1)) > _TOKEN_BODY:
            raise refuse_anonymous(request)
        state_of(request.scope)[RateLimits].enter(request.scope)
        return None

    return key_dependency(admit, "ingest")


def shown_token(body: bytes) -> Any:
    """Return what a body says as `token`, None without one."""
    try:
        content = from_json(body)
    except ValueError:
        return None
    return content.get("token") if isinstance(content, dict) else None


def refuse_anonymous(request: Request) -> NotAuthenticatedError:
    """Count a request that shows neither a key nor a battle's token, and return its error."""
    state_of(request.scope)[RateLimits].count_anonymous(request.scope)
    return NotAuthenticatedError("send an API key (Authorization: Bearer sa_…) or the token of a battle")


def verify_battle_token(request: Request, token: str, caller: Caller | None) -> UUID:
    """Return the battle of a token. Without a caller, count the request towards the token's limit.

    Raises ForgedTokenError or RateLimitedError.
    """
    state = state_of(request.scope)
    try:
        battle_id = state[BattleTokens].verify(token)
    except ForgedTokenError:
        if caller is None:
            state[RateLimits].count_anonymous(request.scope)  # guessing tokens must be slow
        raise
    if caller is None:
        state[RateLimits].count_battle_token(request.scope, battle_id)
    return battle_id


OptionalIngest = Annotated[Caller | None, _key_or_none(tokens=True)]
OptionalKey = Annotated[Caller | None, _key_or_none(tokens=False)]
WITHOUT_KEY: dict[str, Any] = {"security": [{}]}
"""Says in `openapi_extra` that a request may come without a key."""
