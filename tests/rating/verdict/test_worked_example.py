"""A beats B 8 to 4, A against C 3 to 5: the example that the literature works through by hand."""

import math

import numpy as np
import pytest

from app.rating.settings import LoopSettings
from app.rating.units import ELO_PER_NATURAL
from app.rating.verdict.rating import Rating, estimate
from app.rating.verdict.round import run_round
from app.rating.votes.cells import Cells, aggregate

A, B, C = range(3)
SETTINGS = LoopSettings(method="m-elo", min_votes=0, interval="information", base=1500.0)


def votes(times: int = 1) -> Cells:
    model_b = np.repeat([B, C], [12, 8])
    outcome = np.repeat([1.0, 0.0, 1.0, 0.0], [8, 4, 3, 5])
    return aggregate(
        np.zeros(20 * times, int), np.full(20 * times, A), np.tile(model_b, times), np.tile(outcome, times),
        n_annotators=1, n_models=3,
    )  # fmt: skip


def contrast_against_a(times: int) -> tuple[np.ndarray, np.ndarray]:
    result = estimate(votes(times), SETTINGS)
    assert result.covariance is not None
    against = np.eye(3) - np.eye(3)[A]
    variance = against @ result.covariance.scores @ against.T
    return against @ result.fit.R, np.sqrt(np.diag(variance))


def test_log_odds_against_a() -> None:
    value, se = contrast_against_a(1)
    np.testing.assert_allclose(value[[B, C]], [-math.log(2), math.log(5 / 3)], atol=1e-9)
    np.testing.assert_allclose(se[[B, C]], [0.6124, 0.7303], atol=5e-5)


def test_every_game_fed_in_twice_gives_the_write_ups_smaller_errors() -> None:
    value, se = contrast_against_a(2)
    np.testing.assert_allclose(value[[B, C]], [-0.6931, 0.5108], atol=5e-5)
    np.testing.assert_allclose(se[[B, C]], [0.4330, 0.5164], atol=5e-5)


@pytest.fixture(scope="module")
def rating() -> Rating:
    return run_round(votes(), SETTINGS)


def test_centred_scores(rating: Rating) -> None:
    natural = (rating.models.score - 1500.0) / ELO_PER_NATURAL
    np.testing.assert_allclose(natural, [0.0608, -0.6324, 0.5716], atol=5e-5)
    np.testing.assert_allclose(rating.models.se / ELO_PER_NATURAL, [0.3177, 0.4753, 0.5279], atol=5e-5)


def test_elo_points_and_intervals(rating: Rating) -> None:
    board = rating.models
    np.testing.assert_allclose(board.score, [1510.6, 1390.1, 1599.3], atol=0.05)
    np.testing.assert_allclose(board.lower, [1402.4, 1228.3, 1419.5], atol=0.05)
    np.testing.assert_allclose(board.upper, [1618.7, 1552.0, 1779.0], atol=0.05)
    assert board.rank.tolist() == [2, 3, 1]
    assert board.best_rank.tolist() == [1, 1, 1]
    assert board.worst_rank.tolist() == [3, 3, 3]
    assert board.wins.tolist() == [11, 4, 5]
    assert board.losses.tolist() == [9, 8, 3]
