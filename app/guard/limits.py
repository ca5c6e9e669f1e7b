"""Limits on callers: requests a minute, and how many of an address may be answered at once."""

import ipaddress
import math
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from cachetools import LRUCache
from starlette.types import Scope

from app.auth.callers import Caller
from app.guard.errors import RateLimitedError
from app.settings import Settings
from app.state import ProcessState

SIGN_INS_PER_MINUTE = 10
"""That an address may try; one through a provider counts twice."""
REQUESTS_PER_TOKEN = 30
"""A minute that a battle's token may make without a key: one browser votes with it, once."""

REQUESTS_PER_VOTER = 120
"""A minute that a person may make who votes on the answers that lie here, by a link or through the open door."""
VISITORS_PER_MINUTE = 100
"""Of an address that may come in through the open door: a class that votes behind one address is let in."""
OPEN_PER_MINUTE, OPEN_BURST = 600, 100
"""Requests of an address for each thing that is open to all: at least these, and so many of them at once."""
FILES = 10
"""A page has up to eight files, and a class may come at once: requests for them may be so many times as many."""

_MINUTE = 60.0
_LEAST_BURST, _BURSTS = 100, 6
"""An address may make a sixth of a minute's requests at once, or these: a browser asks for a page and all its parts."""
_NETWORK_BITS = 64  # of an IPv6 address that belong to one subscriber
UNKNOWN_NETWORK = "unknown"
"""Of callers whose address cannot be read: they share the limits of one."""
IN_PROGRESS = "in_progress"
"""In a request's state: what to call when the request was answered."""
RATE_LIMIT_HEADERS = "rate_limit_headers"
"""In a request's state: the response headers that say how much of the limit is left, as in the IETF's draft."""


@dataclass(slots=True)
class Bucket:
    """A token bucket: `left` requests may come at once, at most `size`, and `per_minute` are added in a minute."""

    per_minute: float
    size: float
    left: float
    at: float

    @classmethod
    def full(cls, per_minute: float, size: float) -> "Bucket":
        """Return the bucket of a caller that was silent for a minute."""
        return cls(per_minute, size, size, time.monotonic())

    def take(self, number: float) -> bool:
        """Take so many, if there are as many."""
        now = time.monotonic()
        self.left = min(self.size, self.left + (now - self.at) * self.per_minute / _MINUTE)
        self.at = now
        if self.left < number:
            return False
        self.left -= number
        return True


class RateLimits:
    """Counts the requests of each key, battle token and address without either, in this process's memory.

    Every process counts for itself: with four processes, a caller may make up to four times as many requests. The
    requests of a minute may come at once, of an address only a burst of them. If there are more than `size` callers,
    the one that was silent longest is forgotten.
    """

    def __init__(
        self,
        *,
        per_key: int | None,
        per_address: int | None,
        at_once: int | None = None,
        token_votes: int | None = None,
        token_votes_per_annotator: int | None = None,
        size: int = 100_000,
    ) -> None:
        self._per_key = per_key
        self._per_address = per_address
        self._token_votes = token_votes
        self._token_votes_per_annotator = token_votes_per_annotator
        self._at_once = at_once
        self._in_progress: Counter[str] = Counter()
        self._buckets: LRUCache[Any, Bucket] = LRUCache(size)

    def enter(self, scope: Scope) -> None:
        """Count a request without a valid key among those that its address has in progress, until it is answered.

        Raises RateLimitedError.
        """
        if self._at_once is None or IN_PROGRESS in scope["state"]:
            return
        network = caller_network(scope)
        if self._in_progress[network] >= self._at_once:
            raise RateLimitedError(f"one address may have {self._at_once} requests in progress without a key", 1)
        self._in_progress[network] += 1
        scope["state"][IN_PROGRESS] = partial(self._leave, network)

    def _leave(self, network: str) -> None:
        self._in_progress[network] -= 1
        if not self._in_progress[network]:
            del self._in_progress[network]

    def count_caller(self, scope: Scope, caller: Caller) -> None:
        """Count a request of a key, or of one of its tokens, towards the key's own limit or the service's.

        Raises RateLimitedError.
        """
        per_minute = caller.requests_per_minute or self._per_key
        if per_minute is not None:
            self._take(scope, "key", caller.key_id or caller.name, per_minute)

    def count_anonymous(self, scope: Scope) -> None:
        """Count a request without a valid key towards the limits of the address. Raises RateLimitedError."""
        self.enter(scope)
        if self._per_address is not None:
            self._take(scope, "address", caller_network(scope), self._per_address)

    def count_open(self, scope: Scope, times: int = 1) -> None:
        """Count a request that needs no key towards the limit of its address on this route alone.

        Raises RateLimitedError.
        """
        self.enter(scope)
        if self._per_address is not None:
            place = getattr(scope.get("route"), "path", scope["method"] == "OPTIONS")
            per_minute = times * max(self._per_address, OPEN_PER_MINUTE)
            who = ("open", place, caller_network(scope))
            self._take(scope, "address", who, per_minute, burst=times * OPEN_BURST)

    def count_sign_in(self, scope: Scope) -> None:
        """Count an attempt to sign in towards the limit of the address. Raises RateLimitedError."""
        self._take(scope, "address", ("sign-in", caller_network(scope)), SIGN_INS_PER_MINUTE)

    def count_battle_token(self, scope: Scope, battle_id: UUID) -> None:
        """Count a request that shows a genuine token of a battle and no key. The address' limit does not apply.

        Raises RateLimitedError.
        """
        self._take(scope, "token", battle_id, REQUESTS_PER_TOKEN)

    def count_voter(self, scope: Scope, voter_id: UUID, *, invited: bool) -> None:
        """Count a request of a person who votes here; one who came through the open door counts for the address too.

        Raises RateLimitedError.
        """
        if not invited:
            self.count_anonymous(scope)
        self._take(scope, "voter", ("voter", voter_id), REQUESTS_PER_VOTER)

    def count_visitor(self, scope: Scope) -> None:
        """Count a person who comes in through the open door. Raises RateLimitedError."""
        self._take(scope, "address", ("visitor", caller_network(scope)), VISITORS_PER_MINUTE, what="visitors")

    def count_token_votes(self, scope: Scope, caller: Caller, votes: Mapping[str, int]) -> None:
        """Count the votes that an ingest token sends, by annotator. The annotators of all tokens of a key are the same.

        Raises RateLimitedError.
        """
        if self._token_votes_per_annotator is not None:
            for annotator, cast in votes.items():
                who = ("annotator", caller.key_id, annotator)
                self._take(scope, "annotator", who, self._token_votes_per_annotator, cast, what="votes by tokens")
        if self._token_votes is not None and votes:
            number = sum(votes.values())
            self._take(scope, "token", ("token", caller.token_id), self._token_votes, number, what="votes")

    def _take(
        self,
        scope: Scope,
        policy: str,
        who: Any,
        per_minute: int,
        number: int = 1,
        *,
        what: str = "requests",
        burst: int | None = None,
    ) -> None:
        bucket = self._buckets.get(who)
        if bucket is None or bucket.per_minute != per_minute:
            if burst is None:
                burst = max(_LEAST_BURST, per_minute // _BURSTS) if policy == "address" else per_minute
            bucket = self._buckets[who] = Bucket.full(per_minute, min(burst, per_minute))
        refused = not bucket.take(number)
        rate = per_minute / _MINUTE
        until_full = math.ceil((bucket.size - bucket.left) / rate)
        if refused or what == "requests":  # the headers are about requests, unless votes are what was refused
            scope["state"][RATE_LIMIT_HEADERS] = (
                (
                    b"ratelimit-policy",
                    b'"%b";q=%d;w=%d' % (policy.encode(), bucket.size, math.ceil(bucket.size / rate)),
                ),
                (b"ratelimit", b'"%b";r=%d;t=%d' % (policy.encode(), bucket.left, until_full)),
            )
        if refused:
            wait = math.ceil((min(number, bucket.size) - bucket.left) / rate)
            verb = "make" if what == "requests" else "send"
            at_once = f", {bucket.size} of them at once" if bucket.size < per_minute else ""
            raise RateLimitedError(f"one {policy} may {verb} {per_minute} {what} a minute{at_once}", wait)


def provide_limits(state: ProcessState) -> None:
    """Hold the limits that the settings name."""
    settings = state[Settings]
    state[RateLimits] = RateLimits(
        per_key=settings.server.requests_per_minute,
        per_address=settings.server.anonymous_requests_per_minute,
        at_once=settings.server.connections_per_address,
        token_votes=settings.ingest.votes_per_token,
        token_votes_per_annotator=settings.ingest.token_votes_per_annotator,
    )


def caller_network(scope: Scope) -> str:
    """Return the network of the caller's address. uvicorn has looked behind proxies."""
    return network_of(scope["client"][0] if scope.get("client") else "")


def network_of(host: str) -> str:
    """Return an address, of IPv6 the part that a provider assigns; for what is no address, `UNKNOWN_NETWORK`.

    What a trusted proxy forwards may be anything. A port and the quotation marks of RFC 7239 are left out.
    """
    host = host.strip('"')
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return UNKNOWN_NETWORK
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:  # an IPv4 caller of a socket for both
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((address, _NETWORK_BITS), strict=False))
