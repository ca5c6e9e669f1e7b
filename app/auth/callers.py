"""Callers of the service: who they are, by their key or token, and what they may do."""

import asyncio
import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Generic, Literal, TypeVar, get_args
from uuid import UUID

from cachetools import LRUCache

from app.errors import ScopeMissingError

Scope = Literal["ingest", "read", "review:read", "review", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
_GIVEN_BY: dict[Scope, frozenset[str]] = {one: frozenset({one, "admin"}) for one in SCOPES}
_GIVEN_BY["review:read"] |= {"review"}


class ForeignAnnotatorError(ScopeMissingError):
    """A vote through a token names another annotator than the one the token is bound to."""

    code = "foreign-annotator"
    title = "The token is bound to another annotator"


@dataclass(frozen=True)
class AnnotatorBinding:
    """The one annotator that a token may vote for. Only a hash of the annotator's raw key is stored."""

    key: bytes
    mac: str

    @classmethod
    def to(cls, annotator: str, secret: str) -> "AnnotatorBinding":
        """Bind to an annotator. The hash says nothing about the annotator without the token's secret."""
        return cls(secret.encode(), hmac.digest(secret.encode(), annotator.encode(), "sha256").hex())

    def allows(self, annotator: str) -> bool:
        """Whether this is the annotator."""
        mac = hmac.digest(self.key, annotator.encode("utf-8", "surrogatepass"), "sha256").hex()
        return hmac.compare_digest(mac, self.mac)


@dataclass(frozen=True)
class Caller:
    """The holder of a key or token, by the key's name and scopes.

    Attributes
    ----------
    key_id : the key's id; None for a person at the command line
    requests_per_minute : the key's own limit; None for the service's
    token_id : the token's id, if a token of the key is shown; tokens may post votes only
    binding : the only annotator that the token may vote for; None for any
    """

    key_id: UUID | None
    name: str
    scopes: frozenset[str]
    requests_per_minute: int | None = None
    token_id: UUID | None = None
    binding: AnnotatorBinding | None = None

    def may(self, scope: Scope) -> bool:
        """Whether the caller has the scope; `admin` includes every other, and `review` includes `review:read`."""
        return not _GIVEN_BY[scope].isdisjoint(self.scopes)

    def may_vote_as(self, annotator: str) -> bool:
        """Whether the caller may send votes of this annotator."""
        return self.binding is None or self.binding.allows(annotator)


_MOST_KNOWN = 10_000
Holder = TypeVar("Holder")


class KnownHolders(Generic[Holder]):
    """Holders of secrets that were authenticated in the last few seconds, so that a stream of votes looks up few.

    A revoked or expired key works for at most `seconds` more, and so do its tokens. Keys are remembered by their hash,
    refusals not at all. `look_up` finds the holder of a key or token in the database; it runs in a thread. Belongs to
    one event loop.
    """

    def __init__(
        self,
        look_up: Callable[[str], Holder],
        *,
        seconds: float = 5.0,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look_up = look_up
        self._timer = timer
        self._seconds = seconds
        self._known: LRUCache[bytes, tuple[float, Holder]] = LRUCache(_MOST_KNOWN)
        self._asking: dict[bytes, asyncio.Task[Holder]] = {}

    async def identify(self, secret: str) -> Holder:
        """Return the holder of this key or token, from memory or from the database. Raises NotAuthenticatedError."""
        key = sha256(secret.encode()).digest()
        known = self._known.get(key)
        if known is not None and self._timer() < known[0]:
            return known[1]
        # Requests that show the same key meanwhile wait for the same look-up.
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = asyncio.create_task(self._ask(key, secret))
        return await asyncio.shield(asking)

    async def _ask(self, key: bytes, secret: str) -> Holder:
        # The time counts from the start of the look-up: a revocation during it must not take longer to have effect.
        until = self._timer() + self._seconds
        try:
            holder = await asyncio.to_thread(self._look_up, secret)
        finally:
            del self._asking[key]
        self._known[key] = (until, holder)
        return holder


class KnownCallers(KnownHolders[Caller]):
    """Holders of API keys and ingest tokens."""
