"""Requests that show a battle's token in their body, in place of a key."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import Request

from app.api.dependencies import authorise, key_dependency
from app.auth.battle_tokens import BattleTokens, ForgedTokenError
from app.auth.callers import Caller
from app.errors import NotAuthenticatedError
from app.guard.limits import RateLimits
from app.state import state_of

_TOKEN_BODY = 4096  # bytes: more than a body with a token needs


async def _ingest_or_none(request: Request) -> Caller | None:
    return await _optional_ingest(request, tokens=True)


async def _key_or_none(request: Request) -> Caller | None:
    return await _optional_ingest(request, tokens=False)


async def _optional_ingest(request: Request, *, tokens: bool) -> Caller | None:
    """Return the caller, who needs scope `ingest`; None for a request without a key: a battle's token may replace it.

    Without a key, a body that is longer than one with a token needs, or does not say how long it is, is refused.

    Raises
    ------
    NotAuthenticatedError, ScopeMissingError, RateLimitedError
    """
    if "authorization" in request.headers:
        return await authorise(request, "ingest", tokens=tokens)
    if int(request.headers.get("content-length", _TOKEN_BODY + 1)) > _TOKEN_BODY:
        raise refuse_anonymous(request)
    state_of(request.scope)[RateLimits].enter(request.scope)
    return None


def refuse_anonymous(request: Request) -> NotAuthenticatedError:
    """Count a request that shows neither a key nor a battle's token, and return its error."""
    state_of(request.scope)[RateLimits].count_anonymous(request.scope)
    return NotAuthenticatedError("send an API key (Authorization: Bearer sa_…) or the token of a battle")


def verify_battle_token(request: Request, token: str, caller: Caller | None) -> UUID:
    """Return the battle of a token. Without a caller, count the request towards the token's limit.

    Raises
    ------
    ForgedTokenError, RateLimitedError
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


# None for a request without a key: the endpoint looks for a battle's token. `WITHOUT_KEY` documents that.
OptionalIngest = Annotated[Caller | None, key_dependency(_ingest_or_none, "ingest")]
OptionalKey = Annotated[Caller | None, key_dependency(_key_or_none, "ingest")]
WITHOUT_KEY: dict[str, Any] = {"security": [{}]}
