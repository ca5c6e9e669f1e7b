"""Requests that show a battle's token in their body, in place of a key."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import Request, Security

from app.auth.battle_tokens import ForgedTokenError
from app.auth.callers import Caller
from app.errors import NotAuthenticatedError
from app.http.dependencies import Credentials, authorise, services_of

_TOKEN_BODY = 4096  # bytes: more than a body with a token needs


async def optional_ingest(request: Request, secret: str | None, *, tokens: bool = True) -> Caller | None:
    """Return the caller, who needs scope `ingest`; None for a request without a key: a battle's token may replace it.

    Raises
    ------
    NotAuthenticatedError, ScopeMissingError, RateLimitedError
    """
    if secret is None and "authorization" not in request.headers:
        return None
    return await authorise(request, "ingest", secret, tokens=tokens)


async def read_signed_body(request: Request, caller: Caller | None) -> bytes:
    """Return the body. Without a caller it may hold a battle's token, and is refused if it is longer than that needs.

    Raises
    ------
    NotAuthenticatedError, RateLimitedError
    """
    if caller is None and int(request.headers.get("content-length", _TOKEN_BODY + 1)) > _TOKEN_BODY:
        raise refuse_anonymous(request)
    return await request.body()


def refuse_anonymous(request: Request) -> NotAuthenticatedError:
    """Count a request that shows neither a key nor a battle's token, and return its error."""
    services_of(request).rate_limits.count_anonymous(request.scope)
    return NotAuthenticatedError("send an API key (Authorization: Bearer sa_…) or the token of a battle")


def verify_battle_token(request: Request, token: str, caller: Caller | None) -> UUID:
    """Return the battle of a token. Without a caller, count the request towards the token's limit.

    Raises
    ------
    ForgedTokenError, RateLimitedError
    """
    services = services_of(request)
    try:
        battle_id = services.battle_tokens.verify(token)
    except ForgedTokenError:
        if caller is None:
            services.rate_limits.count_anonymous(request.scope)  # guessing tokens must be slow
        raise
    if caller is None:
        services.rate_limits.count_battle_token(request.scope, battle_id)
    return battle_id


async def _ingest_or_none(request: Request, credentials: Credentials) -> Caller | None:
    return await optional_ingest(request, credentials.credentials if credentials else None)


async def _key_or_none(request: Request, credentials: Credentials) -> Caller | None:
    return await optional_ingest(request, credentials.credentials if credentials else None, tokens=False)


# None for a request without a key: the endpoint looks for a battle's token. `WITHOUT_KEY` documents that.
OptionalIngest = Annotated[Caller | None, Security(_ingest_or_none, scopes=["ingest"])]
OptionalKey = Annotated[Caller | None, Security(_key_or_none, scopes=["ingest"])]
WITHOUT_KEY: dict[str, Any] = {"security": [{}]}
