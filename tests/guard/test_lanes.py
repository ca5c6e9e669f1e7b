"""What readers who always ask for something new may take of a processor, and of the turns of others."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from app.guard import lanes, limits
from app.guard.lanes import Lane

_TURN = 0.1
_HERE, _THERE = "192.0.2.1", "192.0.2.2"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that a test sets; the event loop has its own."""
    now = [1000.0]
    stopped = SimpleNamespace(monotonic=lambda: now[0], perf_counter=lambda: now[0])
    for module in (lanes, limits):
        monkeypatch.setattr(module, "time", stopped)
    return now


def rest(lane: Lane, clock: list[float], network: str = _HERE) -> tuple[float, float]:
    """Let a turn and the rest of its network pass; return how long the lane rested, and how long the network."""
    clock[0] += _TURN
    rested = lane.rests_after(network, _TURN)
    clock[0] += rested[1]
    return rested


def test_rests_become_long_where_new_answers_are_always_asked_for(clock: list[float]) -> None:
    lane = Lane(rests=True)
    first = [rest(lane, clock) for _ in range(20)]
    began = clock[0]
    rests = [rest(lane, clock) for _ in range(600)]

    assert first == [pytest.approx((_TURN, _TURN))] * 20  # the pages of a new leaderboard
    assert 600 * _TURN / (clock[0] - began) < 0.28
    assert max(own for _, own in rests) == pytest.approx(4 * _TURN)
    assert max(others for others, _ in rests) == pytest.approx(_TURN), "other networks do not pay for it"
    assert rest(lane, clock, _THERE) == pytest.approx((_TURN, _TURN))
    clock[0] += 60
    assert rest(lane, clock) == pytest.approx((_TURN, _TURN))


def test_many_networks_together_do_not_get_more(clock: list[float]) -> None:
    lane = Lane(rests=True)
    rests = []
    for number in range(600):
        clock[0] += _TURN
        rests.append(lane.rests_after(f"10.0.{number // 250}.{number % 250}", _TURN)[0])
        clock[0] += rests[-1]

    assert max(rests) == pytest.approx(4 * _TURN)


class Queue:
    """Readers of a lane, whose turns end when a test says so."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self.turns: list[str] = []
        self._ended = asyncio.Event()

    async def ask(self, network: str, answer: str, *, made: Callable[[], bool] = lambda: False) -> None:
        async def work() -> tuple[None, lanes.Outcome]:
            self.turns.append(answer)
            await self._ended.wait()
            return None, "kept" if made() else "made"

        await self._lane.take({"client": (network, 1)}, answer, work)

    async def end(self, *readers: asyncio.Task[None]) -> None:
        self._ended.set()
        await asyncio.gather(*readers)


async def settle() -> None:
    """Let everything go on that waits for nothing but the event loop."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_turns_go_round_by_network() -> None:
    async def run() -> None:
        queue = Queue(Lane(rests=False))
        readers = [asyncio.create_task(queue.ask(_HERE, f"here {number}")) for number in range(4)]
        await settle()
        readers += [asyncio.create_task(queue.ask(_THERE, f"there {number}")) for number in range(2)]
        await settle()
        await queue.end(*readers)
        assert queue.turns == ["here 0", "here 1", "there 0", "here 2", "there 1", "here 3"]

    asyncio.run(run())


def test_a_network_rests_alone_for_what_it_spent(clock: list[float]) -> None:
    async def run() -> None:
        lane = Lane(rests=True)
        queue = Queue(lane)
        for _ in range(40):
            rest(lane, clock)
        lane.rests_after(_HERE, _TURN)
        clock[0] += _TURN  # the lane's rest is over, the network's is not
        here = asyncio.create_task(queue.ask(_HERE, "here"))
        there = asyncio.create_task(queue.ask(_THERE, "there"))
        await settle()
        assert queue.turns == ["there"]
        here.cancel()
        await queue.end(there)

    asyncio.run(run())


def test_who_waits_for_an_answer_that_was_made_does_not_wait_for_rests(clock: list[float]) -> None:
    async def run() -> None:
        queue = Queue(Lane(rests=True))
        asked = [(_HERE, "a", lambda: True), (_HERE, "b", lambda: False), (_HERE, "a", lambda: True)]
        readers = [asyncio.create_task(queue.ask(network, answer, made=made)) for network, answer, made in asked]
        await settle()
        clock[0] += _TURN
        readers[1].cancel()
        await queue.end(readers[0], readers[2])
        assert queue.turns == ["a", "a"], "the clock stands still: a rest would not end"

    asyncio.run(run())


def test_a_reader_who_leaves_gives_the_turn_to_the_next() -> None:
    async def run() -> None:
        queue = Queue(Lane(rests=False))
        first, second, third = (asyncio.create_task(queue.ask(_HERE, answer)) for answer in "abc")
        await settle()
        second.cancel()
        first.cancel()
        await settle()
        await queue.end(third)
        assert queue.turns == ["a", "c"]

    asyncio.run(run())


def test_the_lane_of_known_callers_does_not_rest(clock: list[float]) -> None:
    async def run() -> None:
        queue = Queue(Lane(rests=False))
        readers = [asyncio.create_task(queue.ask(_HERE, str(number))) for number in range(4)]
        await settle()
        clock[0] += 100 * _TURN
        await queue.end(*readers)
        assert queue.turns == ["0", "1", "2", "3"]

    asyncio.run(run())
