"""Intervals with style control contain the truth: of scores, of the crowd's taste, of each annotator's leans."""

import numpy as np
import pytest

from app.rating.settings import LoopSettings
from app.rating.units import ELO_PER_NATURAL
from app.rating.verdict.round import run_round
from app.rating.verdict.style import control_style
from tests.rating.model.styled_world import draw_styled

pytestmark = pytest.mark.campaign

SETTINGS = LoopSettings(min_votes=0, flag_rule="threshold")


@pytest.mark.parametrize(
    ("annotators", "votes_each", "worlds"), [(20, 300, 80), (100, 200, 80), (400, 60, 60), (2_000, 60, 16)]
)
def test_intervals_hold_and_nothing_is_stretched(annotators: int, votes_each: int, worlds: int) -> None:
    held: dict[str, list[float]] = {"plain": [], "scores": [], "gamma": [], "lean": [], "own": []}
    stretch, of_gamma = [], []
    for seed in range(worlds):
        world = draw_styled(annotators, votes_each, seed=seed)
        plain = run_round(world.votes.aggregate(), SETTINGS)
        found = control_style(plain, world.votes, world.features)
        for name, models in (("plain", plain.models), ("scores", found.rating.models)):
            score = models.score - models.score.mean()
            half = (models.upper - models.lower) / 2
            held[name].append(float(np.mean(np.abs(score - ELO_PER_NATURAL * world.R) <= half)))
        stretch.append(float(score @ world.R) / float(ELO_PER_NATURAL * world.R @ world.R))
        style, gamma = found.style, ELO_PER_NATURAL * world.gamma
        of_gamma.append(float(style.gamma @ gamma / (gamma @ gamma)))
        held["gamma"].append(float(np.mean((style.lower <= gamma) & (gamma <= style.upper))))
        assert world.leans is not None
        own = ELO_PER_NATURAL * world.leans
        lean = world.ability[:, None] * gamma + own
        held["lean"].append(float(np.mean(np.abs(style.lean - lean) <= 1.96 * style.lean_se)))
        held["own"].append(float(np.mean(np.abs(style.own - own) <= 1.96 * style.own_se)))
    mean = {name: float(np.mean(values)) for name, values in held.items()}
    assert mean["plain"] < 0.85
    assert 0.91 <= mean["scores"] <= 0.98
    assert 0.9 <= mean["gamma"] <= 1.0
    assert 0.93 <= mean["lean"] <= 0.97
    assert 0.92 <= mean["own"] <= 0.97
    for each in (stretch, of_gamma):
        assert np.mean(each) == pytest.approx(1.0, abs=3.0 * np.std(each) / worlds**0.5)
