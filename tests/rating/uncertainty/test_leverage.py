"""Intervals of models with few annotators: a sandwich alone sees no uncertainty where they do not differ."""

import numpy as np
import pytest
from scipy.special import expit

from app.rating.settings import LoopSettings, Method
from app.rating.uncertainty.results import ModelEstimates
from app.rating.units import ELO_PER_NATURAL
from app.rating.verdict.round import run_round
from app.rating.votes.cells import Cells, aggregate

ANNOTATORS, MODELS = 60, 4
TRUTH = np.append(np.linspace(-0.6, 0.6, MODELS), 0.2)
BATTLES = 60  # of the newcomer, the last model


def with_a_newcomer(seed: int, judges: int) -> Cells:
    """A crowd on four models, and a fifth that the first so many annotators judge."""
    generator = np.random.default_rng(seed)
    size = ANNOTATORS * 50
    annotator, a = generator.integers(0, ANNOTATORS, size), generator.integers(0, MODELS, size)
    b = (a + generator.integers(1, MODELS, size)) % MODELS
    battle = np.arange(BATTLES)
    annotator = np.append(annotator, battle % judges)
    a, b = np.append(a, np.full(BATTLES, MODELS)), np.append(b, battle // judges % MODELS)
    won = (generator.random(len(a)) < expit(TRUTH[a] - TRUTH[b])).astype(float)
    return aggregate(annotator, a, b, won, n_annotators=ANNOTATORS, n_models=MODELS + 1)


def rate(cells: Cells, method: Method = "m-elo", **changes: object) -> ModelEstimates:
    return run_round(cells, LoopSettings(method=method, min_votes=0, **changes)).models  # type: ignore[arg-type]  # as given


@pytest.mark.parametrize("judges", [1, *(pytest.param(n, marks=pytest.mark.campaign) for n in (2, 3, 5, 10))])
def test_intervals_of_a_newcomer_hold_whoever_judged_it(judges: int) -> None:
    truth = 1000 + ELO_PER_NATURAL * (TRUTH - TRUTH[:MODELS].mean())  # the newcomer hardly weighs in the centre
    inside = []
    for seed in range(200):
        board = rate(with_a_newcomer(seed, judges))
        inside.append((board.lower <= truth) & (truth <= board.upper))
    newcomer, rest = np.mean(inside, axis=0)[-1], np.mean(inside, axis=0)[:-1]
    assert 0.9 <= newcomer <= 0.995
    assert rest.min() >= 0.9


def test_what_one_annotator_judged_is_as_uncertain_as_their_votes_are_few() -> None:
    cells = with_a_newcomer(0, judges=1)
    alone, trusting = rate(cells, "am-elo"), rate(cells, "am-elo", interval="information")
    assert 0.9 < alone.se[-1] / trusting.se[-1] < 1.5


def test_an_island_of_one_annotator_has_an_interval() -> None:
    crowd = with_a_newcomer(0, judges=60)
    votes = [(0, 5, 6, w) for w in (1.0,) * 12 + (0.0,) * 8]
    island = aggregate(*zip(*votes, strict=True), n_annotators=ANNOTATORS, n_models=7)
    names = ("annotator", "model_a", "model_b", "n", "s", "ties")
    columns = [np.concatenate([getattr(part, name) for part in (island, crowd)]) for name in names]
    board = rate(Cells(*columns, ANNOTATORS, 7))
    p = 0.6
    assert board.se[5] == pytest.approx(ELO_PER_NATURAL / 2 / np.sqrt(20 * p * (1 - p)), rel=0.05)


@pytest.mark.parametrize("interval", ["clustered", "sandwich"])
def test_a_single_tie_says_little(interval: str) -> None:
    board = rate(aggregate([0], [0], [1], [0.5], n_annotators=1, n_models=2), interval=interval)
    assert board.score.tolist() == [1000, 1000]
    assert board.se[0] == pytest.approx(ELO_PER_NATURAL)  # as of a vote of information 1/4, half of it for either


def test_in_a_crowd_it_changes_nothing() -> None:
    generator = np.random.default_rng(0)
    annotator, a = np.repeat(np.arange(200), 30), generator.integers(0, 5, 6000)
    b = (a + generator.integers(1, 5, 6000)) % 5
    W = (generator.random(6000) < 0.6).astype(float)
    board = rate(aggregate(annotator, a, b, W, n_annotators=200, n_models=5))
    R = board.score / ELO_PER_NATURAL
    p = expit(R[a] - R[b])
    sides = np.zeros((6000, 5))
    sides[np.arange(6000), a], sides[np.arange(6000), b] = 1, -1
    u = np.zeros((200, 5))
    np.add.at(u, annotator, sides * (W - p)[:, None])
    bread = np.linalg.pinv((sides.T * (p * (1 - p))) @ sides, rcond=1e-10)
    variance = np.diag(bread @ u.T @ u @ bread) * 200 / 199
    np.testing.assert_allclose(board.se, ELO_PER_NATURAL * np.sqrt(variance), rtol=1e-3)
