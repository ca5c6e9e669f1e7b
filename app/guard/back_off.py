"""Answers that come late, so that callers who are refused again and again do not keep the service busy."""

import asyncio
import random
import time
from contextlib import suppress
from typing import Any

from cachetools import LRUCache
from starlette.types import Scope

from app.guard.limits import IN_PROGRESS, Bucket, caller_network
from app.guard.stopping import OpenAnswers
from app.settings import Settings
from app.state import ProcessState

SECONDS = 5.0
"""An answer waits so long on average, half as long at least: requests that came together do not come together again."""
MOST_WAITING = 256
"""More answers than these do not wait: each holds a connection and up to 256 KiB of a body."""
_MOST_ADDRESSES = 10_000  # that are remembered; the one that was silent longest is forgotten
WAITED = "waited"
"""In a request's state: for how many seconds its answer was kept back."""


class BackOff:
    """Lets the answer to an unread body, or to a public read past the limit, wait if its address had many such answers.

    To refuse a request costs up to a millisecond, and who asks in a loop asks again as soon as the answer is there. So
    a late answer slows the loop down. Requests that are not refused never wait, whatever else comes from their address,
    and those that wait take no place of its requests in progress.

    Parameters
    ----------
    per_minute : answers that an address, of IPv6 the network of a subscriber, gets at once; None for any number
    seconds : an answer waits so long on average
    most_waiting : more answers than these do not wait

    Attributes
    ----------
    waiting : answers that wait now
    """

    def __init__(
        self,
        per_minute: int | None,
        *,
        seconds: float = SECONDS,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._per_minute = per_minute
        self._buckets: LRUCache[Any, Bucket] = LRUCache(_MOST_ADDRESSES)
        self.seconds = seconds
        self._most_waiting = most_waiting
        self.waiting = 0
        self._stopped = asyncio.Event()

    async def wait(self, scope: Scope) -> None:
        """Wait before this request is refused, if its address had too many refusals."""
        if self._per_minute is None or self._has_one_left(caller_network(scope), self._per_minute):
            return
        if self.waiting >= self._most_waiting:
            return
        leave = scope["state"].pop(IN_PROGRESS, None)
        if leave is not None:
            leave()
        self.waiting += 1
        began = time.perf_counter()
        try:
            with suppress(TimeoutError):
                seconds = random.uniform(0.5, 1.5) * self.seconds  # noqa: S311  keeps no secret
                await asyncio.wait_for(self._stopped.wait(), seconds)
        finally:
            self.waiting -= 1
            scope["state"][WAITED] = time.perf_counter() - began

    def stop(self) -> None:
        """Send the answers that wait now, and let none wait any more."""
        self._stopped.set()

    def _has_one_left(self, address: str, per_minute: int) -> bool:
        bucket = self._buckets.get(address)
        if bucket is None:
            bucket = self._buckets[address] = Bucket.full(per_minute, per_minute)
        return bucket.take(1)


def provide_back_off(state: ProcessState) -> None:
    """Hold what lets answers wait; none waits in a process that stops."""
    state[BackOff] = back_off = BackOff(state[Settings].server.unread_bodies_per_minute)
    state[OpenAnswers].end_by(back_off.stop)
