"""Requests that carry a key of their caller's choosing are done once, however often they are sent.

After draft-ietf-httpapi-idempotency-key-header. The key's lock, the work and the answer share one transaction: either
all of it is on record or nothing. The primary key of the table stands behind the lock.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection

from app.errors import BadInputError, ConflictError
from app.http.idempotency import queries as store


class IdempotencyKeyReusedError(BadInputError):
    """The key belongs to an earlier request, and this is another."""

    code = "idempotency-key-reused"
    title = "The idempotency key was used for another request"


class IdempotencyInFlightError(ConflictError):
    """A request with this key is being worked on."""

    code = "idempotency-in-flight"
    title = "A request with this idempotency key is under way"


@dataclass(frozen=True)
class Claim:
    """A caller's word that every request with this key is the same request.

    `fingerprint` tells requests apart; keys of different API keys have nothing to do with each other.
    """

    api_key_id: UUID
    key: str
    fingerprint: bytes

    @property
    def pair(self) -> store.KeyPair:
        """What the claim is kept under."""
        return self.api_key_id, self.key


@dataclass(frozen=True)
class Answer:
    """What a request is answered with; `replayed` where it is the answer to an earlier one."""

    status: int
    body: bytes
    replayed: bool = False


Settled = Answer | IdempotencyKeyReusedError | IdempotencyInFlightError


def settle_claims(conn: Connection, claims: Sequence[Claim]) -> dict[int, Settled]:
    """Hold the keys of these claims until the transaction ends, and return what is to be said to some, by their place.

    The requests of the others are to be done in this transaction, and their answers kept. Needs READ COMMITTED.
    """
    first: dict[store.KeyPair, int] = {}
    for place, claim in enumerate(claims):
        first.setdefault(claim.pair, place)
    held = dict(zip(first, store.try_lock_keys(conn, list(first)), strict=True))
    # Asked after the locks were taken: whoever held one before has committed its answer.
    kept = store.find_answers(conn, list(first))
    settled: dict[int, Settled] = {}
    for place, claim in enumerate(claims):
        earlier = kept.get(claim.pair)
        if earlier is not None:
            settled[place] = _replay(claim, earlier)
        elif not held[claim.pair] or first[claim.pair] != place:
            settled[place] = IdempotencyInFlightError("a request with this Idempotency-Key is being worked on")
    return settled


def keep_answers(conn: Connection, answers: Sequence[tuple[Claim, Answer]], *, keep_hours: int) -> None:
    """Keep the answers to requests whose claims were held; they are given again for at least `keep_hours`."""
    rows = [(claim.pair, store.KeptAnswer(claim.fingerprint, each.status, each.body)) for claim, each in answers]
    store.add_answers(conn, rows, keep_hours=keep_hours)


def answer_once(conn: Connection, claim: Claim | None, work: Callable[[], Answer], *, keep_hours: int) -> Answer:
    """Do the work and keep its answer, or give the answer that is kept; without a claim only do the work.

    What `work` raises is not kept: the transaction that it broke did nothing.

    Raises
    ------
    IdempotencyKeyReusedError, IdempotencyInFlightError
    """
    if claim is None:
        return work()
    settled = settle_claims(conn, [claim]).get(0)
    if isinstance(settled, Exception):
        raise settled
    if settled is not None:
        return settled
    answer = work()
    keep_answers(conn, [(claim, answer)], keep_hours=keep_hours)
    return answer


def _replay(claim: Claim, kept: store.KeptAnswer) -> Settled:
    if kept.fingerprint != claim.fingerprint:
        return IdempotencyKeyReusedError("this Idempotency-Key was sent with another request before: choose a new one")
    return Answer(kept.status, kept.answer, replayed=True)
