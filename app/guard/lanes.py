"""A share of the processor for answers that have to be made: one at a time, in turns that go round the networks."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from cachetools import LRUCache
from starlette.types import Scope

from app.errors import UnavailableError
from app.guard.limits import Bucket, caller_network

Made = TypeVar("Made")

_MOST_WAITING = 64
_MOST_OF_A_NETWORK = 4
_WAIT_SECONDS = 5.0
_LONGEST_REST = 1.0
_LONG_REST = 4
"""A rest after a turn is this many times the turn where turns have taken more lately than their `_Allowance`."""
_MOST_NETWORKS = 10_000


class TooManyReadersError(UnavailableError):
    """More readers wait for answers that have to be made than the service makes in time."""

    code = "too-many-readers"
    title = "Too many readers wait for an answer"


Outcome = Literal["free", "made", "kept"]
"""What became of a turn: nothing was made in it; an answer was made; it is kept too, so who waits for it is next."""


@dataclass
class _Allowance:
    """Seconds of turns after which rests are short, and until when to rest now."""

    short_rests: Bucket
    until: float = 0.0

    def spend(self, seconds: float) -> float:
        """Charge a turn and return how long to rest after it."""
        rest = min(seconds, _LONGEST_REST) * (1 if self.short_rests.take(seconds) else _LONG_REST)
        self.until = time.monotonic() + rest
        return rest


@dataclass(eq=False)
class _Place:
    network: str
    answer: Hashable
    granted: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Lane:
    """Lets one answer be made at a time. The networks that wait take turns, however many answers each waits for.

    Where the lane `rests`, it does so for as long as the last turn took. Once a network has spent some seconds, as on
    a new leaderboard, it rests four times as long itself, and the others go on meanwhile: readers of one network who
    always ask for something new get about a quarter of a processor. All networks together have three times the
    allowance of one; beyond it, the lane rests long too.
    """

    def __init__(self, *, rests: bool) -> None:
        self._rests = rests
        self._all = _Allowance(Bucket.full(18.0, 9.0))
        self._networks: LRUCache[str, _Allowance] = LRUCache(_MOST_NETWORKS)
        self._waiting: dict[str, list[_Place]] = {}  # the networks in the order of their turns
        self._at_once: deque[_Place] = deque()
        self._held = False
        self._timer: asyncio.TimerHandle | None = None

    async def take(self, scope: Scope, answer: Hashable, work: Callable[[], Awaitable[tuple[Made, Outcome]]]) -> Made:
        """Wait for a turn and work in it. Few answers may be waited for at once, and fewer by one network.

        Raises TooManyReadersError.
        """
        place = _Place(caller_network(scope), answer)
        outcome: Outcome = "made"
        await self._wait(place)
        began = time.perf_counter()
        try:
            made, outcome = await work()
            return made
        finally:
            if outcome == "kept":
                self._bring_forward(answer)
            if self._rests and outcome != "free":
                self.rests_after(place.network, time.perf_counter() - began)
            self._pass_on()

    def rests_after(self, network: str, spent: float) -> tuple[float, float]:
        """Charge a turn of so many seconds; return how long the lane rests after it, and how long the network."""
        own = self._networks.get(network)
        if own is None:
            own = self._networks[network] = _Allowance(Bucket.full(6.0, 3.0))
        return self._all.spend(spent), own.spend(spent)

    async def _wait(self, place: _Place) -> None:
        answers = {(one.network, one.answer) for places in self._waiting.values() for one in places}
        others = sum(network == place.network for network, _ in answers)
        if (place.network, place.answer) not in answers and (
            others >= _MOST_OF_A_NETWORK or len(answers) >= _MOST_WAITING
        ):
            raise TooManyReadersError("too many answers that have to be made are waited for")
        self._waiting.setdefault(place.network, []).append(place)
        self._go_on()
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                await place.granted
        except BaseException as error:
            self._leave(place)
            if place.granted.done() and not place.granted.cancelled():  # it was granted in the same moment
                self._pass_on()
            if isinstance(error, TimeoutError):
                raise TooManyReadersError("answers for other readers took too long to make") from None
            raise

    def _leave(self, place: _Place) -> None:
        if place in self._at_once:
            self._at_once.remove(place)
        places = self._waiting.get(place.network, [])
        if place in places:
            places.remove(place)
            if not places:
                del self._waiting[place.network]

    def _bring_forward(self, answer: Hashable) -> None:
        for place in [one for places in self._waiting.values() for one in places if one.answer == answer]:
            self._leave(place)
            self._at_once.append(place)

    def _pass_on(self) -> None:
        self._held = False
        self._go_on()

    def _go_on(self) -> None:
        """Give the turn to the next place."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while not self._held and (place := self._take_place()) is not None:
            if not place.granted.done():  # else its reader has left in this moment
                self._held = True
                place.granted.set_result(None)

    def _take_place(self) -> _Place | None:
        """Return the place that is next. None if none waits, or while all rest: then look again at the first end."""
        if self._at_once:
            return self._at_once.popleft()
        if not self._waiting:
            return None
        rested = {network: self._rested_at(network) for network in self._waiting}
        now = time.monotonic()
        network = next((name for name, at in rested.items() if at <= now), None)
        if network is None:
            self._timer = asyncio.get_running_loop().call_later(min(rested.values()) - now, self._go_on)
            return None
        place = self._waiting[network][0]
        self._leave(place)
        if network in self._waiting:  # behind the others
            self._waiting[network] = self._waiting.pop(network)
        return place

    def _rested_at(self, network: str) -> float:
        own = self._networks.get(network)
        return max(self._all.until, own.until if own is not None else 0.0)
