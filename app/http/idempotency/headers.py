"""The header Idempotency-Key: read on the way in, told of on the way out."""

import hashlib
import re
from collections.abc import Callable
from typing import Any

from fastapi import Request, Response
from pydantic import BaseModel
from sqlalchemy import Connection

from app.auth.service import Caller
from app.errors import BadInputError, FieldError
from app.http import problems
from app.http.dependencies import services_of
from app.http.idempotency.service import Answer, Claim, answer_once

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"

# The draft's form is a string in quotes; most clients leave them out. Both are the same key.
_FORM = re.compile(r'"([ !#-\[\]-~]{1,255})"|([!#-~]{1,255})')


def claim_of(request: Request, caller: Caller, body: bytes) -> Claim | None:
    """Return what the request's key claims; None for a request without one.

    Raises
    ------
    BadInputError
        The header is there more than once or holds no key.
    """
    given = request.headers.getlist(HEADER)
    if not given:
        return None
    form = _FORM.fullmatch(given[0].strip()) if len(given) == 1 else None
    if form is None or caller.key_id is None:
        error = "must be one key of 1 to 255 printable ASCII characters"
        raise BadInputError(f"{HEADER}: {error}", (FieldError(f"/{HEADER}", error),))
    digest = hashlib.sha256(f"{request.method} {request.url.path}\n".encode())
    digest.update(body)
    return Claim(caller.key_id, form[1] or form[2], digest.digest())


def respond_once(
    conn: Connection, request: Request, caller: Caller, body: bytes, work: Callable[[], Answer]
) -> Response:
    """Do the work of a request in this transaction, or answer as was answered to the first with its key.

    Raises
    ------
    IdempotencyKeyReusedError, IdempotencyInFlightError, BadInputError
        And whatever `work` raises; then nothing is kept.
    """
    claim = claim_of(request, caller, body)
    return respond(answer_once(conn, claim, work, keep_hours=keep_hours(request)))


def keep_hours(request: Request) -> int:
    """Return how long answers are kept at least."""
    return services_of(request).settings.ingest.idempotency_hours


def json_answer(content: BaseModel, status: int) -> Answer:
    """Return a model as an answer that can be kept."""
    return Answer(status, content.model_dump_json(exclude_none=True).encode())


def respond(answer: Answer) -> Response:
    """Return an answer as it goes over the wire."""
    is_problem = answer.status >= 400  # noqa: PLR2004  where HTTP's errors begin
    headers = {REPLAYED: "true"} if answer.replayed else None
    media_type = problems.MEDIA_TYPE if is_problem else "application/json"
    return Response(answer.body, answer.status, headers, media_type)


def documented_key() -> dict[str, Any]:
    """Return the parameter as OpenAPI's operation says it, for `openapi_extra`."""
    return {
        "name": HEADER,
        "in": "header",
        "required": False,
        "description": "A key of the caller's choosing: a request sent again with it is answered, not done, again.",
        "schema": {"type": "string", "pattern": f"^(?:{_FORM.pattern})$"},
    }
