import ipaddress
import math
import time
from dataclasses import dataclass
from typing import Any

from starlette.types import Scope

from app.auth.callers import Caller
from app.http.problems import RateLimitedError

_MINUTE = 60.0
_NETWORK_BITS = 64  # of an IPv6 address that belong to one subscriber
HEADERS = "rate_limit_headers"
"""In a request's state: the response headers that say how much of the limit is left, as in the IETF's draft."""


@dataclass(slots=True)
class _Bucket:
    """A token bucket: `left` requests may come at once, and `per_minute` are added in a minute."""

    per_minute: int
    left: float
    at: float


class RateLimits:
    """Counts the requests of each key, and of each address without a valid key, in this process's memory.

    Every process counts for itself: with four processes, a caller may make up to four times as many requests. The
    requests of a minute may come at once.
    """

    def __init__(self, *, per_key: int | None, per_address: int | None, size: int = 100_000) -> None:
        self._per_key = per_key
        self._per_address = per_address
        self._size = size
        self._buckets: dict[Any, _Bucket] = {}

    def count_caller(self, scope: Scope, caller: Caller) -> None:
        """Count a request of a key, or of one of its tokens, towards the key's own limit or the service's.

        Raises
        ------
        RateLimitedError
        """
        per_minute = caller.requests_per_minute or self._per_key
        if per_minute is not None:
            self._take(scope, "key", caller.key_id, per_minute)

    def count_anonymous(self, scope: Scope) -> None:
        """Count a request without a valid key towards the limit of the address.

        Raises
        ------
        RateLimitedError
        """
        if self._per_address is not None:
            self._take(scope, "address", _network(scope), self._per_address)

    def _take(self, scope: Scope, policy: str, who: Any, per_minute: int) -> None:
        now = time.monotonic()
        bucket = self._buckets.get(who)
        if bucket is None or bucket.per_minute != per_minute:
            if len(self._buckets) >= self._size:
                self._forget(now)
            bucket = self._buckets[who] = _Bucket(per_minute, per_minute, now)
        rate = per_minute / _MINUTE
        bucket.left = min(per_minute, bucket.left + (now - bucket.at) * rate)
        bucket.at = now
        refused = bucket.left < 1
        if not refused:
            bucket.left -= 1
        until_full = math.ceil((per_minute - bucket.left) / rate)
        scope["state"][HEADERS] = (
            (b"ratelimit-policy", b'"%b";q=%d;w=60' % (policy.encode(), per_minute)),
            (b"ratelimit", b'"%b";r=%d;t=%d' % (policy.encode(), bucket.left, until_full)),
        )
        if refused:
            wait = math.ceil((1 - bucket.left) / rate)
            raise RateLimitedError(f"one {policy} may make {per_minute} requests a minute", wait)

    def _forget(self, now: float) -> None:
        """Drop the full buckets, which are like new ones; if none is full, drop the older half."""
        used = {
            who: bucket
            for who, bucket in self._buckets.items()
            if bucket.left + (now - bucket.at) * bucket.per_minute / _MINUTE < bucket.per_minute
        }
        if len(used) >= self._size:
            used = dict(list(used.items())[len(used) // 2 :])
        self._buckets = used


def _network(scope: Scope) -> str:
    """Return the caller's address, of IPv6 the part that a provider assigns. uvicorn has looked behind proxies."""
    host: str = scope["client"][0] if scope.get("client") else ""
    if ":" not in host:
        return host
    return str(ipaddress.IPv6Network((host.partition("%")[0], _NETWORK_BITS), strict=False))
