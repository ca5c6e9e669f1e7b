"""A request with an idempotency key is carried out once, even if it is sent many times.

After draft-ietf-httpapi-idempotency-key-header. The lock on the key, the work and the stored response share one
transaction, so either all of them are on record or none is. The table's primary key guards against a missed lock.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection

from app.api.idempotency import queries as store
from app.errors import BadInputError, ConflictError


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
    def pair(self) -> store.KeyPair:
        """The key under which the response is stored."""
        return self.api_key_id, self.key


@dataclass(frozen=True)
class StoredResponse:
    """A response that can be given again; `replayed` if it is the response to an earlier request."""

    status: int
    body: bytes
    replayed: bool = False


Resolved = StoredResponse | IdempotencyKeyReusedError | IdempotencyInFlightError


def resolve_claims(conn: Connection, claims: Sequence[IdempotencyClaim]) -> dict[int, Resolved]:
    """Lock the keys until the transaction ends. Return, by place, the claims that must not be carried out.

    Those have a response already, belong to another request, or are in flight. The others are to be carried out in this
    transaction, and their responses stored. Needs READ COMMITTED.
    """
    first: dict[store.KeyPair, int] = {}
    for place, claim in enumerate(claims):
        first.setdefault(claim.pair, place)
    locked = dict(zip(first, store.try_lock_keys(conn, list(first)), strict=True))
    # Read after locking: a transaction that held a lock before has committed its response.
    stored = store.find_responses(conn, list(first))
    resolved: dict[int, Resolved] = {}
    for place, claim in enumerate(claims):
        earlier = stored.get(claim.pair)
        if earlier is not None:
            resolved[place] = _replay(claim, earlier)
        elif not locked[claim.pair] or first[claim.pair] != place:
            resolved[place] = IdempotencyInFlightError("a request with this Idempotency-Key is being worked on")
    return resolved


def store_responses(conn: Connection, responses: Sequence[tuple[IdempotencyClaim, StoredResponse]]) -> None:
    """Store the responses to claims that this transaction has locked; they are kept for `store.KEEP_HOURS` or more."""
    rows = [
        (claim.pair, store.ResponseRow(claim.fingerprint, response.status, response.body))
        for claim, response in responses
    ]
    store.add_responses(conn, rows)


def run_once(conn: Connection, claim: IdempotencyClaim | None, work: Callable[[], StoredResponse]) -> StoredResponse:
    """Do the work and store its response, or return the response that is stored. Without a claim only do the work.

    If `work` raises, nothing is stored: its transaction is rolled back.

    Raises
    ------
    IdempotencyKeyReusedError, IdempotencyInFlightError
    """
    if claim is None:
        return work()
    resolved = resolve_claims(conn, [claim]).get(0)
    if isinstance(resolved, Exception):
        raise resolved
    if resolved is not None:
        return resolved
    response = work()
    store_responses(conn, [(claim, response)])
    return response


def _replay(claim: IdempotencyClaim, stored: store.ResponseRow) -> Resolved:
    if stored.fingerprint != claim.fingerprint:
        return IdempotencyKeyReusedError("this Idempotency-Key was sent with another request before: choose a new one")
    return StoredResponse(stored.status, stored.body, replayed=True)
