"""A request with an idempotency key is carried out once, even if it is sent many times.

After draft-ietf-httpapi-idempotency-key-header. The lock on the key, the work and the stored response share one
transaction, so either all of them are on record or none is. The table's primary key guards against a missed lock.
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from fastapi import Request, Response
from sqlalchemy import Connection

from app.auth.callers import Caller
from app.errors import BadInputError, ConflictError, FieldError
from app.guard.refusals import MEDIA_TYPE

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"

# The draft's form is a string in quotes. Most clients leave them out. Both mean the same key.
_FORM = re.compile(r'"([ !#-\[\]-~]{1,255})"|([!#-~]{1,255})')

KeyPair = tuple[UUID, str]
"""An API key, and an idempotency key that its holder chose."""

KEEP_HOURS = 24
"""Shortest time for which a response is kept."""

_LOCK = """
SELECT pg_try_advisory_xact_lock(hashtextextended(wanted.api_key_id || ' ' || wanted.key, 0))
FROM unnest(%(api_keys)b::uuid[], %(keys)b::text[]) WITH ORDINALITY AS wanted(api_key_id, key, place)
ORDER BY wanted.place
"""
_FIND = """
SELECT stored.api_key_id, stored.key, stored.fingerprint, stored.status, stored.answer
FROM idempotency_keys AS stored
JOIN unnest(%(api_keys)b::uuid[], %(keys)b::text[]) AS wanted(api_key_id, key)
  ON stored.api_key_id = wanted.api_key_id AND stored.key = wanted.key
"""
_ADD = """
INSERT INTO idempotency_keys (api_key_id, key, fingerprint, status, answer)
SELECT * FROM unnest(%(api_keys)b::uuid[], %(keys)b::text[], %(fingerprints)b::bytea[], %(statuses)b::smallint[],
                     %(answers)b::bytea[])
"""
# Every insert deletes up to twice as many expired rows, so that no job has to. Rows that another transaction deletes at
# the same time are skipped.
_PURGE = """
DELETE FROM idempotency_keys WHERE (api_key_id, key) IN (
    SELECT api_key_id, key FROM idempotency_keys WHERE created_at < now() - make_interval(hours => %(hours)s)
    ORDER BY created_at LIMIT %(most)s FOR UPDATE SKIP LOCKED
)
"""


class IdempotencyKeyReusedError(BadInputError):
    """The key belongs to an earlier request with other content."""

    code = "idempotency-key-reused"
    title = "The idempotency key was used for another request"


class IdempotencyInFlightError(ConflictError):
    """Another request with this key is still being processed."""

    code = "idempotency-in-flight"
    title = "A request with this idempotency key is under way"


@dataclass(frozen=True)
class IdempotencyClaim:
    """A request's idempotency key, and a fingerprint of the request. Each API key has idempotency keys of its own."""

    api_key_id: UUID
    key: str
    fingerprint: bytes

    @property
    def pair(self) -> KeyPair:
        """The key under which the response is stored."""
        return self.api_key_id, self.key


Resolved = Response | IdempotencyKeyReusedError | IdempotencyInFlightError
"""The response to an earlier request, whose header says so, or why the request is not carried out."""


def read_claim(request: Request, caller: Caller, body: bytes) -> IdempotencyClaim:
    """Return the claim of a request that has the header.

    Raises BadInputError: the header is there more than once, or is not a key.
    """
    given = request.headers.getlist(HEADER)
    form = _FORM.fullmatch(given[0].strip()) if len(given) == 1 else None
    if form is None or caller.key_id is None:
        error = "must be one key of 1 to 255 printable ASCII characters"
        raise BadInputError(f"{HEADER}: {error}", (FieldError(f"/{HEADER}", error),))
    digest = hashlib.sha256(f"{request.method} {request.url.path}\n".encode())
    digest.update(body)
    return IdempotencyClaim(caller.key_id, form[1] or form[2], digest.digest())


def documented_key() -> dict[str, Any]:
    """Return the header as an OpenAPI parameter, for `openapi_extra`."""
    return {
        "name": HEADER,
        "in": "header",
        "required": False,
        "description": "A key that the caller chooses. The same request with the same key gets the first answer again.",
        "schema": {"type": "string", "pattern": f"^(?:{_FORM.pattern})$"},
    }


def run_once(conn: Connection, work: Callable[[], bytes], *, claim: IdempotencyClaim | None) -> Response:
    """Do the work, answer 200 with the JSON that it returns, and store the response; or return the one that is stored.

    Without a claim only do the work. If `work` raises, nothing is stored: its transaction is rolled back. Raises
    IdempotencyKeyReusedError or IdempotencyInFlightError.
    """
    if claim is None:
        return Response(work(), media_type="application/json")
    resolved = resolve_claims(conn, [claim]).get(0)
    if isinstance(resolved, Exception):
        raise resolved
    if resolved is not None:
        return resolved
    response = Response(work(), media_type="application/json")
    store_responses(conn, [(claim, response)])
    return response


def resolve_claims(conn: Connection, claims: Sequence[IdempotencyClaim]) -> dict[int, Resolved]:
    """Lock the keys until the transaction ends. Return, by place, the claims that must not be carried out.

    Those have a response already, belong to another request, or are in flight. The others are to be carried out in this
    transaction, and their responses stored. Needs READ COMMITTED.
    """
    first: dict[KeyPair, int] = {}
    for place, claim in enumerate(claims):
        first.setdefault(claim.pair, place)
    keys = _columns(list(first))
    locked = dict(zip(first, conn.exec_driver_sql(_LOCK, keys).scalars(), strict=True))
    # Read after locking: a transaction that held a lock before has committed its response.
    stored = {(api_key, key): rest for api_key, key, *rest in conn.exec_driver_sql(_FIND, keys)}
    resolved: dict[int, Resolved] = {}
    for place, claim in enumerate(claims):
        earlier = stored.get(claim.pair)
        if earlier is not None:
            resolved[place] = _replay(claim, *earlier)
        elif not locked[claim.pair] or first[claim.pair] != place:
            resolved[place] = IdempotencyInFlightError("a request with this Idempotency-Key is being worked on")
    return resolved


def _replay(claim: IdempotencyClaim, fingerprint: bytes, status: int, body: bytes) -> Resolved:
    if bytes(fingerprint) != claim.fingerprint:
        return IdempotencyKeyReusedError("this Idempotency-Key was sent with another request before: choose a new one")
    media_type = MEDIA_TYPE if status >= 400 else "application/json"  # noqa: PLR2004  where HTTP's errors begin
    return Response(bytes(body), status, {REPLAYED: "true"}, media_type)


def store_responses(conn: Connection, responses: Sequence[tuple[IdempotencyClaim, Response]]) -> None:
    """Store the responses to claims that this transaction has locked, and delete some older than `KEEP_HOURS`."""
    values = {
        **_columns([claim.pair for claim, _ in responses]),
        "fingerprints": [claim.fingerprint for claim, _ in responses],
        "statuses": [response.status_code for _, response in responses],
        "answers": [bytes(response.body) for _, response in responses],
    }
    conn.exec_driver_sql(_ADD, values)
    conn.exec_driver_sql(_PURGE, {"hours": KEEP_HOURS, "most": 2 * len(responses)})


def _columns(keys: Sequence[KeyPair]) -> dict[str, object]:
    return {"api_keys": [api_key for api_key, _ in keys], "keys": [key for _, key in keys]}
