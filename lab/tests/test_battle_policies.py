"""Battle policies on simulated arenas: what the simulation draws, and what the policies save."""

from functools import partial

import numpy as np
import pytest

from app.rating.simulation.worlds import World
from app.rating.units import NATURAL_PER_ELO
from stable_arena_lab.battles.pooled_arena import pooled_arena, simulated_arena
from stable_arena_lab.battles.votes_needed import (
    COMPARED,
    PolicyRow,
    VotesNeeded,
    compare_policies,
    count_votes,
    coval,
    summarise,
)


def test_pooled_votes_are_those_of_the_annotators() -> None:
    """The same mean and the same share of ties as votes of the World drawn one by one."""
    score, ability = np.array([0.6, -0.6]), np.exp(0.3 * np.random.default_rng(1).standard_normal(400))
    arena = pooled_arena(score, ability, 0.35, bad=0.3)
    role = np.array(["honest"] * 280 + ["random"] * 40 + ["flip"] * 40 + ["equal"] * 40)
    theta = np.where(role == "honest", ability, np.where(role == "flip", -ability, 0.0))
    world = World(score / NATURAL_PER_ELO, theta, role, 0, 0.35)
    annotator = np.tile(np.arange(400), 500)
    first, second = np.zeros(len(annotator), dtype=int), np.ones(len(annotator), dtype=int)
    outcome = world.vote(annotator, first, second, np.random.default_rng(2))
    assert arena.won[0, 1] == pytest.approx((outcome == 1.0).mean(), abs=0.005)
    assert arena.tied[0, 1] == pytest.approx((outcome == 0.5).mean(), abs=0.005)
    assert arena.won[0, 1] + arena.won[1, 0] + arena.tied[0, 1] == pytest.approx(1.0)
    battles = np.array([[0, 100_000], [0, 0]], dtype=float)
    wins, ties = arena.vote(battles, np.random.default_rng(3))
    assert wins[0, 1] + wins[1, 0] + ties[0, 1] == 100_000
    assert wins[0, 1] / 100_000 == pytest.approx(arena.won[0, 1], abs=0.005)
    np.testing.assert_array_equal(ties, ties.T)


def saved(arenas: int, *policies: str) -> dict[str, PolicyRow]:
    found = compare_policies(partial(simulated_arena, n_models=20), seeds=range(arenas), policies=policies)
    return {row.policy: row for row in found}


def test_the_default_needs_fewer_votes_than_uniform_pairs() -> None:
    rows = saved(2, "mixed")
    assert list(rows) == ["uniform", "mixed"]
    assert rows["uniform"].top_ratio == rows["uniform"].ranking_ratio == 1.0
    assert rows["mixed"].top_ratio <= 0.40
    assert rows["mixed"].wrong == 0.0


@pytest.mark.soak
def test_what_the_policies_save() -> None:
    """With 20 models: the first three with a third of the votes, the ranking with no more than uniform pairs."""
    rows = saved(30, "information", "top_k", "mixed")
    assert rows["top_k"].top_ratio <= 0.30
    assert rows["mixed"].top_ratio <= 0.40
    assert rows["mixed"].ranking_ratio <= 1.5
    assert rows["information"].ranking_ratio <= 1.0
    assert max(row.wrong for row in rows.values()) <= 0.1


def test_answers_are_those_that_stay() -> None:
    arena = simulated_arena(3, 8, bad=0.1)
    one, again = (count_votes(arena, "mixed", seed=5, k=2) for _ in range(2))
    assert one == again
    assert count_votes(arena, "mixed", seed=6, k=2) != one
    close = pooled_arena(np.array([1.0, 0.0, 0.0]), np.ones(1), 0.3)  # the second place is never decided
    stuck = count_votes(close, "top_k", seed=1, k=2)
    assert stuck.top == 1e10


def test_the_summary_compares_within_each_arena() -> None:
    found = [VotesNeeded("uniform", 9, i, 100.0 * i, 10.0 * i, False) for i in (1, 2, 3)]
    found += [VotesNeeded("top_k", 9, i, 300.0, 5.0 * i, i == 1) for i in (1, 2, 3)]
    uniform, top = summarise(found)
    assert (uniform.ranking, uniform.top, uniform.ranking_ratio) == (200.0, 20.0, 1.0)
    assert (top.ranking, top.ranking_ratio, top.ranking_low, top.ranking_high) == (300.0, 1.5, 1.25, 2.25)
    assert (top.top_ratio, top.wrong, top.arenas) == (0.5, pytest.approx(1 / 3), 3)


def test_coval_prefers_close_pairs_with_wide_intervals() -> None:
    R = np.array([0.0, 0.0, 300.0 * NATURAL_PER_ELO])
    weights = coval(R, np.diag([4.0, 1.0, 1.0]), np.zeros((3, 3)), 1)
    np.testing.assert_allclose(weights, [[0, 3, 3 / np.e], [3, 0, 2 / np.e], [3 / np.e, 2 / np.e, 0]])
    assert "coval" in COMPARED
