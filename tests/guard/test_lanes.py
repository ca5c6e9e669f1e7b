"""What readers who always ask for something new may take of a processor."""

import time

import pytest

from app.guard.lanes import Lane

_TURN = 0.1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that a test sets."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def rest(lane: Lane, clock: list[float]) -> float:
    """Let a turn and its rest pass; return how long the lane rested."""
    clock[0] += _TURN
    rested = lane.rest_after(_TURN)
    clock[0] += rested
    return rested


def test_rests_become_long_where_new_answers_are_always_asked_for(clock: list[float]) -> None:
    lane = Lane(rests=True)
    first = [rest(lane, clock) for _ in range(20)]
    began = clock[0]
    rests = [rest(lane, clock) for _ in range(600)]

    assert first == pytest.approx([_TURN] * 20)  # the pages of a new leaderboard
    assert 600 * _TURN / (clock[0] - began) < 0.28
    assert max(rests) == pytest.approx(4 * _TURN)
    clock[0] += 60
    assert rest(lane, clock) == pytest.approx(_TURN)


def test_the_lane_of_known_callers_does_not_rest(clock: list[float]) -> None:
    lane = Lane(rests=False)

    assert [rest(lane, clock) for _ in range(100)] == [0.0] * 100
