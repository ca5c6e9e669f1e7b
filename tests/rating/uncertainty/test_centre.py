"""Nothing that is published hangs on a model with few votes."""

from dataclasses import replace

import numpy as np
import pytest

from app.rating.settings import LoopSettings
from app.rating.simulation.worlds import simulate_votes
from app.rating.uncertainty.centre import recentre, weigh_models
from app.rating.verdict.confidence import join_scores
from app.rating.verdict.rating import estimate
from app.rating.verdict.round import run_round
from app.rating.votes.cells import Cells, aggregate

SETTINGS = LoopSettings(min_votes=0)


def with_newcomers(number: int) -> Cells:
    """Votes on eight models, and newcomers with one tie each against model 0."""
    votes, new = simulate_votes(3, n_models=8, votes_each=60), np.arange(number)
    return aggregate(
        np.append(votes.annotator, new), np.append(votes.model_a, 0 * new), np.append(votes.model_b, 8 + new),
        np.append(votes.outcome, np.full(number, 0.5)), n_annotators=42, n_models=8 + number,
    )  # fmt: skip


@pytest.mark.parametrize("settings", [SETTINGS, replace(SETTINGS, method="m-elo"), replace(SETTINGS, interval="none")])
@pytest.mark.parametrize("number", [1, 12])
def test_newcomers_with_one_tie_move_nothing(settings: LoopSettings, number: int) -> None:
    before, after = (run_round(with_newcomers(n), settings).models for n in (0, number))
    np.testing.assert_allclose(after.score[:8], before.score, atol=0.25 * number)  # ties make the votes less dispersed
    if settings.interval != "none":
        np.testing.assert_allclose(after.se[:8], before.se, rtol=0.05)
        width, narrow = (models.upper[:8] - models.lower[:8] for models in (after, before))
        np.testing.assert_allclose(width, narrow, rtol=0.05)
    if settings.interval != "none" and number == 1:
        below = after.worst_rank[:8] - before.worst_rank
        assert below.max() == 1, "each may be below the newcomer"
        assert np.abs(below).sum() >= 7
        assert np.abs(after.best_rank[:8] - before.best_rank).max() <= 1, "a family of one more hypothesis"


def test_models_with_enough_votes_weigh_the_same() -> None:
    """A tenth of the usual votes is enough; with less a model weighs as the square."""
    pairs = np.repeat([(0, 1), (1, 2), (0, 2), (2, 3), (0, 4)], (400, 400, 400, 20, 2), axis=0)
    W = np.arange(len(pairs)) % 2
    cells = aggregate(np.arange(len(W)) // 2 % 20, *pairs.T, W.astype(float), n_annotators=20, n_models=6)
    rating = estimate(cells, replace(SETTINGS, method="m-elo"))
    weight = weigh_models(rating)
    assert weight.sum() == pytest.approx(1.0)
    assert weight[0] == weight[1] == weight[2]
    usual = (802**2 + 800**2 + 820**2 + 20**2 + 2**2) / (802 + 800 + 820 + 20 + 2)
    np.testing.assert_allclose(weight[3:] / weight[0], [(10 * 20 / usual) ** 2, (10 * 2 / usual) ** 2, 0.0], rtol=0.01)
    assert rating.models.score[:5] @ weight[:5] == pytest.approx(1000.0)


def test_the_centre_of_errors_moves_with_its_weights() -> None:
    generator = np.random.default_rng(0)
    label, root = np.array([0, 0, 0, 1, 1]), generator.normal(size=(5, 5))
    weight = np.array([0.5, 0.5, 0.0, 0.9, 0.1])
    shift = np.eye(5) - (label[:, None] == label) * weight
    np.testing.assert_allclose(recentre(root @ root.T, label, weight), shift @ root @ root.T @ shift.T)


def test_the_verdict_has_the_scores_that_are_published() -> None:
    """So that bounds on models without a score compare with them."""
    rating = run_round(with_newcomers(3), SETTINGS)
    joint = join_scores(rating)
    assert joint is not None
    np.testing.assert_allclose(joint.score, rating.models.score[joint.models] - SETTINGS.base)
