"""Arenas from their first votes on: every refit has a leaderboard, and leaves nothing out because of an error."""

from dataclasses import replace

import numpy as np
import pytest

from app.policy.schemas import Policy
from app.refits.fit.fit import fit_snapshot
from app.refits.fit.interface import FitInput
from app.refits.fit.parts import LEFT_OUT
from tests.fixtures.fit_inputs import make_fit_input

EVERY = 50
TAGS = ("code", "text", "maths")
SETTINGS = Policy(min_model_votes=5).loop_settings("am-elo")  # else no model of sixty has a rank yet


def draw_arena(seed: int, n_models: int, votes: int) -> FitInput:
    """Draw honest votes on random pairs, one annotator after the other with 52 votes each, a tenth ties."""
    generator = np.random.default_rng((seed, n_models))
    R = generator.normal(0.0, 0.8, n_models)
    annotator = np.arange(votes) // (SETTINGS.min_votes + 2)
    left = generator.integers(n_models, size=votes)
    right = (left + generator.integers(1, n_models, size=votes)) % n_models
    won = generator.random(votes) < 1.0 / (1.0 + np.exp(R[right] - R[left]))
    outcome = np.where(generator.random(votes) < 0.1, 0.5, won)
    made = make_fit_input(
        annotator, left, right, outcome, n_annotators=int(annotator[-1]) + 1, n_models=n_models, settings=SETTINGS
    )
    bits = 1 << generator.choice(3, votes, p=[0.8, 0.17, 0.03])
    return replace(made, dimensions={"code": TAGS}, tags=TAGS, tag_bits=bits.astype(np.int32))


def first(arena: FitInput, votes: int) -> FitInput:
    """Return the arena as it was after so many votes."""
    now = slice(None, votes)
    columns = {name: getattr(arena, name)[now] for name in ("annotator", "model_a", "model_b", "outcome")}
    assert arena.tag_bits is not None
    return replace(arena, **columns, tag_bits=arena.tag_bits[now])


def grow(seed: int, n_models: int, votes: int, begin: int = 300) -> int:
    """Refit the arena every 50 votes, and return how many groups had a forecast."""
    arena, forecasts = draw_arena(seed, n_models, votes), 0
    for so_far in range(begin, votes + 1, EVERY):
        made = fit_snapshot(first(arena, so_far))
        assert not [one for one in made.notices if one.code == LEFT_OUT], (seed, n_models, so_far, made.notices)
        forecasts += len(made.confidence)
    return forecasts


@pytest.mark.parametrize(("seed", "n_models", "votes"), [(0, 10, 400), (0, 60, 350)])
def test_a_board_always_comes(seed: int, n_models: int, votes: int) -> None:
    assert grow(seed, n_models, votes) > 0


@pytest.mark.campaign
@pytest.mark.parametrize("n_models", [10, 20, 40, 60, 80, 100])
def test_boards_of_many_young_arenas_always_come(n_models: int) -> None:
    assert sum(grow(seed, n_models, 2000) for seed in range(2)) > 0
