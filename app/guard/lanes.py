"""A share of the processor for answers that have to be made: one at a time, and rests between them."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from starlette.types import Scope

from app.errors import UnavailableError
from app.guard.limits import Bucket, caller_network

_MOST_WAITING = 64
_MOST_OF_A_NETWORK = 4
_WAIT_SECONDS = 5.0
_LONGEST_REST = 1.0
_SHORT_RESTS_SECONDS = 3.0
_LONG_REST = 4
"""A rest after a turn is this many times the turn where turns have taken more than `_SHORT_RESTS_SECONDS` lately."""
_SHORT_RESTS_PER_MINUTE = 6.0


class TooManyReadersError(UnavailableError):
    """More readers wait for answers that have to be made than the service makes in time."""

    code = "too-many-readers"
    title = "Too many readers wait for an answer"


@dataclass
class Turn:
    """One turn of a lane; `is_free` if nothing was made in it."""

    is_free: bool = False


class Lane:
    """Lets one answer be made at a time. Where it `rests`, the next one waits for as long as the last one took.

    Once some seconds were spent, as after a new leaderboard, the rests are four times as long: readers who always ask
    for something new get about a quarter of a processor.
    """

    def __init__(self, *, rests: bool) -> None:
        self._budget = Bucket.full(_SHORT_RESTS_PER_MINUTE, _SHORT_RESTS_SECONDS) if rests else None
        self._lock = asyncio.Lock()
        self._waiting: Counter[tuple[str, Hashable]] = Counter()

    @asynccontextmanager
    async def turn(self, scope: Scope, answer: Hashable) -> AsyncIterator[Turn]:
        """Wait for a turn and hold it. Few answers may be waited for at once, and fewer by one network.

        Raises TooManyReadersError.
        """
        await self._wait((caller_network(scope), answer))
        began, turn = time.perf_counter(), Turn()
        try:
            yield turn
        finally:
            rest = 0.0 if turn.is_free else self.rest_after(time.perf_counter() - began)
            asyncio.get_running_loop().call_later(rest, self._lock.release)

    def rest_after(self, spent: float) -> float:
        """Return how many seconds to rest after a turn that took so many."""
        if self._budget is None:
            return 0.0
        return min(spent, _LONGEST_REST) * (1 if self._budget.take(spent) else _LONG_REST)

    async def _wait(self, place: tuple[str, Hashable]) -> None:
        others = sum(network == place[0] for network, _ in self._waiting)
        if place not in self._waiting and (others >= _MOST_OF_A_NETWORK or len(self._waiting) >= _MOST_WAITING):
            raise TooManyReadersError("too many answers that have to be made are waited for")
        self._waiting[place] += 1
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                await self._lock.acquire()
        except TimeoutError:
            raise TooManyReadersError("answers for other readers took too long to make") from None
        finally:
            self._waiting[place] -= 1
            if not self._waiting[place]:
                del self._waiting[place]
