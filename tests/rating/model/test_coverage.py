"""Do the intervals hold the truth, in points of the average honest annotator? Nothing is rescaled."""

import pytest

from stable_arena_lab import coverage
from stable_arena_lab.coverage import METHODS, WORLDS, Covered, World, cover


@pytest.fixture(autouse=True)
def _one_method(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the methods that the laboratory compares: of few votes the plain one takes four times as long."""
    monkeypatch.setattr(coverage, "METHODS", {"am-elo": METHODS["am-elo"]})


def integrated(world: World, crowds: int) -> Covered:
    (found,) = cover(world, range(crowds))
    assert not found.failed
    return found


@pytest.mark.parametrize("world", [World(100, 9), World(40, 51), World(100, 51, coins=0.2)])
def test_intervals_of_small_crowds_hold_the_truth(world: World) -> None:
    found = integrated(world, 12)
    assert found.every is not None
    assert found.scale is not None
    assert 0.89 < found.every < 0.995
    assert 0.93 < found.scale < 1.08


@pytest.mark.campaign
@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_intervals_hold_the_truth(world: World) -> None:
    found = integrated(world, 60)
    assert found.every is not None
    assert found.ends is not None
    assert found.scale is not None
    few = world.votes_each < 20
    least = 0.90 if world.coins or world.models < 10 else 0.92  # five models: 60 crowds say it to .02
    assert least < found.every < 0.985
    assert found.ends > 0.87
    off = 0.08 if few and world.coins else 0.06 if few else 0.03 if world.coins else 0.04
    # few votes do not tell coins
    assert abs(found.scale - 1.0) < off
