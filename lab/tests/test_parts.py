"""What is lost without each part of the engine: a part that loses nothing has no place in it."""

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import Result

from app.rating.settings import EVIDENCE_TESTS, TASTE_TESTS
from app.rating.uncertainty import covariance
from stable_arena_lab.attacks.arena import Setup
from stable_arena_lab.defences.gains import SERVICE, Contest
from stable_arena_lab.losses import FIGURES, WORLDS, Loss, Scored, measure_losses
from stable_arena_lab.parts import PARTS, replaced, without

SEEDS, MORE_SEEDS = range(20), range(60)
TARGET_ONLY = Setup(votes_each=200, target=10)
NEEDED = {
    "tastes": ("tastes and coins", "wronged", 0.04),
    "leans": ("leans and coins", "wronged", 0.05),
    "type follower": ("niche", "found", 0.05),
    "type equal": ("always a tie", "found", 0.5),
    "type side": ("always left", "found", 0.4),
    "type coin": ("100 × 51, coins", "found", 0.25),
    "lower weight of pushers": ("target only", "ranks", 0.5),
    "groups of pushers": ("target only", "ranks", 0.5),
    "influence limit": ("close pairs, 200", "ranks", 1.0),
    "followers in the fit": ("niche", "wronged", 0.3),
    "near-copies": ("copies", "coverage", 0.015),
    "degrees of freedom": ("8 × 200", "coverage", 0.02),
}
"""Where a part is needed: the world, the figure, and by how much it is worse; half of what was measured, or less."""


@pytest.mark.campaign
@pytest.mark.parametrize("part", NEEDED)
def test_something_is_lost_without(part: str) -> None:
    world, figure, least = NEEDED[part]
    loss = next(one for one in measure_losses([part], [world], MORE_SEEDS) if one.figure == figure)
    assert loss.harm >= least
    assert loss.errors > 2.0, "beyond the error"


@pytest.mark.campaign
def test_an_attack_on_one_model_gains_without_the_tests_about_models() -> None:
    others = tuple(test for test in EVIDENCE_TESTS if test not in TASTE_TESTS)
    boards = {"whole": SERVICE, "without": replace(SERVICE, evidence_tests=others)}
    gained = [Contest(seed, TARGET_ONLY, boards).attack("target-only") for seed in SEEDS]

    assert np.mean([one["without"].ranks - one["whole"].ranks for one in gained]) > 0.5


TOUCHED = {
    "bound on able annotators": "busy ones", "influence limit": "busy ones", "stretch of the plain votes": "400 × 5",
    "followers in the fit": "niche", "estimated spread": "20 × 51", "groups of pushers": "target only",
    "lower weight of pushers": "target only", "near-copies": "copies", "degrees of freedom": "20 × 51",
    "leverage": "busy ones", "votes as independent": "one judge", "tastes": "tastes and coins",
    "leans": "leans and coins", "type follower": "mimics", "type equal": "always a tie", "type side": "always left",
    "type coin": "100 × 51, coins",
}  # fmt: skip
"""A world whose figures each part moves, for the better or the worse."""


SLOW = "bound on able annotators"  # its kernels are compiled again


@pytest.mark.parametrize("part", [pytest.param(part, marks=[pytest.mark.campaign] * (part == SLOW)) for part in PARTS])
def test_a_part_that_is_taken_out_moves_figures_and_comes_back(part: str) -> None:
    world = WORLDS[TOUCHED[part]]
    there = [getattr(owner, name) for owner, name, _ in PARTS[part]]
    with without(part):
        out = world.measure(1)
    assert out != world.measure(1)
    assert [getattr(owner, name) for owner, name, _ in PARTS[part]] == there


def test_a_replacement_ends_with_an_error_too() -> None:
    there = covariance.LARGEST_SHARE

    def fail() -> None:
        with replaced((covariance, "LARGEST_SHARE", lambda share: share / 2.0)):
            assert there / 2.0 == covariance.LARGEST_SHARE
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert there == covariance.LARGEST_SHARE


def test_copies_and_busy_annotators_are_drawn_as_they_are_named() -> None:
    found = Scored(20, 100, copies=3).measure(1)
    assert set(found) == {"coverage", "width", "scale", "error", "wronged"}
    assert 0.7 < found["scale"] < 1.3
    with without("near-copies"):
        assert Scored(20, 100, copies=3).measure(1)["width"] < found["width"]
    alike, busy = Scored(12, 40), Scored(12, 40, busy=2, busy_votes=80)
    assert busy.measure(1) != alike.measure(1) == replace(busy, busy_votes=40).measure(1)


@pytest.mark.parametrize(
    ("figure", "whole", "change", "harm"),
    [
        ("ranks", 0.5, 0.4, 0.4), ("found", 0.9, -0.2, 0.2), ("wronged", 0.0, -0.1, -0.1), ("width", 9.0, 50.0, 0.0),
        ("coverage", 0.94, -0.1, 0.1), ("coverage", 0.99, -0.04, -0.04), ("scale", 1.0, 0.05, 0.05),
    ],
)  # fmt: skip
def test_harm_goes_by_what_is_right(figure: str, whole: float, change: float, harm: float) -> None:
    loss = Loss("a part", "a world", figure, whole, change, 0.02)
    assert loss.harm == pytest.approx(harm)
    assert loss.errors == pytest.approx(harm / 0.02)
    assert replace(loss, change=0.0).errors == 0.0
    assert abs(replace(loss, se=0.0).errors) == (np.inf if harm else 0.0)


def test_the_command_shows_a_line_for_each_part(run_lab: Callable[..., Result]) -> None:
    words = ["--part", "type equal", "--world", "always a tie", "--repeats", 2, "--processes", 1]
    rows = json.loads(run_lab("parts", *words, "--format", "json").stdout)["losses"]
    assert {row["figure"] for row in rows} == {"found", "wronged"} <= set(FIGURES)
    lost = next(row for row in rows if row["figure"] == "found")
    assert (lost["whole"], lost["change"]) == (1.0, -1.0)
    assert "(always a tie)" in run_lab("parts", *words).stdout
    assert run_lab("parts", "--part", "nothing").exit_code == 2
