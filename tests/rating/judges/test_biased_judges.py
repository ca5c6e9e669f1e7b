"""Leaderboards of judges who lean to the left and like the longer answer: errors in ranks, and Bradley-Terry beside."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from app.rating.judges.ballots import Ballots
from app.rating.judges.board import rate_judges
from app.rating.settings import LoopSettings
from app.rating.verdict.round import run_round
from app.rating.verdict.style import control_style
from app.rating.votes.indexed import IndexedVotes
from app.rating.votes.measures import Features, measure_features

JUDGES, MODELS = 8, 20
Array = np.ndarray


class World(NamedTuple):
    score: Array
    votes: IndexedVotes
    features: Features


def make_world(seed: int, votes_each: int) -> World:
    """Judges with a lean of .2 to 1 and a liking of .2 to .6, log odds; some models are more often on the left."""
    draw = np.random.default_rng(seed)
    score = draw.normal(0.0, 0.35, MODELS)
    wordy, place = draw.normal(0.0, 0.35, MODELS), draw.permutation(MODELS)
    lean, liking = draw.uniform(0.2, 1.0, JUDGES), draw.uniform(0.2, 0.6, JUDGES)
    ability, k = draw.uniform(0.6, 1.4, JUDGES), np.repeat(np.arange(JUDGES), votes_each)
    a = draw.integers(0, MODELS, len(k))
    b = (a + draw.integers(1, MODELS, len(k))) % MODELS
    exchanged = (place[a] > place[b]) & (draw.random(len(k)) < 0.5)
    a, b = np.where(exchanged, b, a), np.where(exchanged, a, b)
    lengths = [np.exp(5.0 + wordy[side] + draw.normal(0.0, 0.4, len(k))) for side in (a, b)]
    features = measure_features(("side", "length"), {"length": (lengths[0], lengths[1])}, len(k))
    x = ability[k] * (score[a] - score[b]) + lean[k] + liking[k] * features.values[:, 1]
    won = (draw.random(len(k)) < expit(x)).astype(float)
    names = [f"j{i}" for i in range(JUDGES)], [f"m{i:02}" for i in range(MODELS)]
    return World(score, IndexedVotes(*names, *(one.astype(np.int32) for one in (k, a, b)), won), features)


def bradley_terry(world: World, z: Array, reg: float) -> Array:
    """Minimise the mean loss + reg/2 Σ γ², as arena-rank does with features: its `reg` is 1 unless set."""
    v, size = world.votes, MODELS

    def loss(t: Array) -> tuple[float, Array]:
        d = t[v.model_a] - t[v.model_b] + z @ t[size:]
        rest, gradient = (expit(d) - v.outcome) / len(d), np.zeros_like(t)
        np.add.at(gradient, v.model_a, rest)
        np.add.at(gradient, v.model_b, -rest)
        gradient[size:] = z.T @ rest + reg * t[size:]
        return float(np.mean(np.logaddexp(0.0, d) - v.outcome * d) + 0.5 * reg * np.sum(t[size:] ** 2)), gradient

    found: Array = minimize(loss, np.zeros(size + z.shape[1]), jac=True, method="L-BFGS-B").x
    return found


def rank_error(score: Array, truth: Array) -> float:
    ranks = [np.argsort(np.argsort(-one)) for one in (score, truth)]
    return float(np.mean(np.abs(ranks[0] - ranks[1])))


@pytest.mark.campaign
def test_style_control_and_leans_mend_the_order_of_biased_judges() -> None:
    errors: dict[str, list[float]] = {}
    shrunk, inside = [], []
    for seed in range(16):
        world = make_world(seed, 1000)
        z, length = world.features.values, world.features.values[:, 1:]
        plain = run_round(world.votes.aggregate(), replace(LoopSettings(), min_votes=0))
        styled = control_style(plain, world.votes, world.features).rating.models
        ballots = Ballots.of(world.votes, None)
        measured = replace(ballots, style=Features(("length",), length))
        weak, free = bradley_terry(world, length, 1.0), bradley_terry(world, length, 1e-6)
        found = {
            "naive": plain.models.score, "reg 1": weak[:MODELS], "reg 0": free[:MODELS],
            "reg 0 and side": bradley_terry(world, z, 1e-6)[:MODELS],
            "judges": rate_judges(ballots).rating.models.score,
            "judges, styled": rate_judges(measured).rating.models.score, "styled": styled.score,
        }  # fmt: skip
        for name, score in found.items():
            errors.setdefault(name, []).append(rank_error(score, world.score))
        shrunk.append(weak[-1] / free[-1])
        truth = 1000.0 + 400.0 / np.log(10.0) * (world.score - world.score.mean())
        inside.append(np.mean((styled.lower < truth) & (truth < styled.upper)))
    mean = {name: float(np.mean(values)) for name, values in errors.items()}
    assert np.mean(shrunk) < 0.2, "reg 1 against the mean loss leaves a fifth or less of the coefficient"
    assert mean["styled"] < 0.5 * mean["naive"]
    assert mean["styled"] < 0.6 * min(mean["reg 1"], mean["reg 0"])
    assert mean["styled"] < mean["reg 0 and side"] + 0.1
    assert mean["judges"] < mean["naive"] - 0.3, "leans alone mend what the sides do"
    assert mean["judges, styled"] < mean["styled"] + 0.1
    assert 0.91 < np.mean(inside) < 0.98
