"""What is lost without each part of the detection: a part that loses nothing has no place in it."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from app.rating.arrays import Mask
from app.rating.settings import EVIDENCE_TESTS, TASTE_TESTS
from app.rating.types import habits, law
from stable_arena_lab.attacks.arena import Setup, Votes
from stable_arena_lab.defences.gains import FLAGGED, SERVICE, Contest, rate
from stable_arena_lab.defences.habits import MODELS, Crowd, draw
from stable_arena_lab.defences.niche import Niche, draw_niche

pytestmark = pytest.mark.campaign

SEEDS = range(12)
NICHE = Niche(judges=5, votes_each=60)
TARGET_ONLY = Setup(votes_each=200, target=10)


@dataclass(frozen=True)
class Loss:
    """What is worse without a part: the share of the honest (or of a niche's judges) wronged, or of the bad found.

    Attributes
    ----------
    least : by which it is worse; half of what was measured with 16 to 24 seeds, or less
    """

    crowd: Crowd | Niche
    of: str
    least: float


PARTS = {
    "tastes": Loss(Crowd("tastes, sd 200", votes_each=200), "wronged", 0.04),
    "leans": Loss(Crowd("lean, sd 300", votes_each=60), "wronged", 0.05),
    "follower": Loss(NICHE, "found", 0.25),
    "equal": Loss(Crowd("alike", "equal", votes_each=60), "found", 0.5),
    "side": Loss(Crowd("lean, sd 150", "always-left", votes_each=200), "found", 0.4),
    "coin": Loss(Crowd("alike", "coin", votes_each=60), "found", 0.25),
}
REPLACED: dict[str, tuple[Any, str, Any]] = {
    "tastes": (habits, "find_taste_variance", lambda *_: 0.0),
    "leans": (habits.Typing, "_find_leans", lambda _: np.array([1e-12, 1e-12, 0.5, 0.5])),
}
TYPES = {"follower": [law.FOLLOWER], "equal": [law.EQUAL], "side": [law.LEFT, law.RIGHT], "coin": [law.COIN]}
"""The types that a test finds: without the test they stay, without the type its annotators are taken for others."""


@pytest.mark.parametrize("part", PARTS)
def test_something_is_lost_without(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loss, tests = PARTS[part], tuple(test for test in EVIDENCE_TESTS if test != part)
    whole = [judge(seed, loss) for seed in SEEDS]
    if part in REPLACED:
        monkeypatch.setattr(*REPLACED[part])
    else:
        fill = habits.Typing._fill

        def fill_without(typing: habits.Typing) -> law.Table:
            table = fill(typing)
            table.fixed[:, TYPES[part]] -= 1e9
            return table

        monkeypatch.setattr(habits.Typing, "_fill", fill_without)
    without = [judge(seed, loss, tests) for seed in SEEDS]

    worse = np.subtract(whole, without) if loss.of == "found" else np.subtract(without, whole)
    assert worse.mean() >= loss.least
    assert worse.mean() > 2 * worse.std() / np.sqrt(len(SEEDS)), "beyond the error"


def test_an_attack_on_one_model_gains_without_the_tests_about_models() -> None:
    others = tuple(test for test in EVIDENCE_TESTS if test not in TASTE_TESTS)
    boards = {"whole": SERVICE, "without": replace(SERVICE, evidence_tests=others)}
    gained = [Contest(seed, TARGET_ONLY, boards).attack("target-only") for seed in SEEDS]

    assert np.mean([one["without"].ranks - one["whole"].ranks for one in gained]) > 0.5


def judge(seed: int, loss: Loss, tests: tuple[str, ...] = EVIDENCE_TESTS) -> float:
    """Return the share found or wronged in one crowd."""
    votes, whose = draw_annotators(seed, loss)
    rating = rate(votes, replace(SERVICE, evidence_tests=tests))
    assert rating is not None
    return float(np.isin(rating.annotators.standing, FLAGGED)[whose].mean())


def draw_annotators(seed: int, loss: Loss) -> tuple[Votes, Mask]:
    """Draw a crowd, and say which of its annotators the loss is about."""
    if isinstance(loss.crowd, Niche):
        niche = loss.crowd
        places = np.arange(niche.crowd + niche.judges + niche.framers)
        framers = places >= niche.crowd + niche.judges
        return draw_niche(seed, niche), framers if loss.of == "found" else (places >= niche.crowd) & ~framers
    annotator, left, right, outcome, bad = draw(seed, loss.crowd)
    votes = Votes(annotator, left, right, outcome, np.arange(len(annotator)), loss.crowd.annotators, MODELS)
    return votes, bad if loss.of == "found" else ~bad
