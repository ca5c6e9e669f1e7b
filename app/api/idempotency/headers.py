"""The header Idempotency-Key of a request, and the header Idempotency-Replayed of its response."""

import hashlib
import re
from typing import Any

from fastapi import Request, Response

from app.api.idempotency.service import IdempotencyClaim, StoredResponse
from app.auth.callers import Caller
from app.errors import BadInputError, FieldError
from app.guard.refusals import MEDIA_TYPE

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"

# The draft's form is a string in quotes. Most clients leave them out. Both mean the same key.
_FORM = re.compile(r'"([ !#-\[\]-~]{1,255})"|([!#-~]{1,255})')


def read_claim(request: Request, caller: Caller, body: bytes) -> IdempotencyClaim:
    """Return the claim of a request that has the header.

    Raises
    ------
    BadInputError
        The header is there more than once, or is not a key.
    """
    given = request.headers.getlist(HEADER)
    form = _FORM.fullmatch(given[0].strip()) if len(given) == 1 else None
    if form is None or caller.key_id is None:
        error = "must be one key of 1 to 255 printable ASCII characters"
        raise BadInputError(f"{HEADER}: {error}", (FieldError(f"/{HEADER}", error),))
    digest = hashlib.sha256(f"{request.method} {request.url.path}\n".encode())
    digest.update(body)
    return IdempotencyClaim(caller.key_id, form[1] or form[2], digest.digest())


def respond(stored: StoredResponse) -> Response:
    """Return the response to send: the one just made, or the one to an earlier request, which the header says."""
    is_problem = stored.status >= 400  # noqa: PLR2004  where HTTP's errors begin
    headers = {REPLAYED: "true"} if stored.replayed else None
    return Response(stored.body, stored.status, headers, MEDIA_TYPE if is_problem else "application/json")


def documented_key() -> dict[str, Any]:
    """Return the header as an OpenAPI parameter, for `openapi_extra`."""
    return {
        "name": HEADER,
        "in": "header",
        "required": False,
        "description": "A key that the caller chooses. The same request with the same key gets the first answer again.",
        "schema": {"type": "string", "pattern": f"^(?:{_FORM.pattern})$"},
    }
