"""Do the intervals hold the truth, in points of the average honest annotator? Nothing is rescaled."""

import pytest

from stable_arena_lab.coverage import WORLDS, Covered, World, cover


def integrated(world: World, crowds: int) -> Covered:
    found = {each.method: each for each in cover(world, range(crowds))}["am-elo"]
    assert not found.failed
    return found


@pytest.mark.parametrize("world", [World(100, 9), World(40, 51)])
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
    assert (0.90 if world.coins else 0.92) < found.every < 0.985
    assert found.ends > 0.87
    assert abs(found.scale - 1.0) < (0.09 if few and world.coins else 0.06 if few else 0.04)
