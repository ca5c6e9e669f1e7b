import numpy as np
import pytest
from scipy.special import stdtrit

from app.rating.settings import LoopSettings
from app.rating.simulation.worlds import simulate_votes
from app.rating.uncertainty.bounds import predict_matchups
from app.rating.units import ELO_PER_NATURAL
from app.rating.verdict.rating import Rating, estimate
from app.rating.verdict.round import run_round
from app.rating.votes.cells import Cells, aggregate

AM_ELO = LoopSettings(min_votes=0)


@pytest.fixture(scope="module")
def cells() -> Cells:
    """Models 0 to 5 compared, model 6 only wins, 7 and 8 an island, 9 without votes."""
    votes = simulate_votes(1, n_models=6, roles={"honest": 25}, votes_each=60)
    more = [(k, 6, k % 6, 1.0) for k in range(12)] + [(k, 7, 8, (k % 3) / 2) for k in range(20)]
    columns = (getattr(votes, name) for name in ("annotator", "model_a", "model_b", "outcome"))
    merged = [np.append(mine, other) for mine, other in zip(columns, zip(*more, strict=True), strict=True)]
    return aggregate(*merged, n_annotators=25, n_models=10)


@pytest.fixture(scope="module")
def fitted(cells: Cells) -> Rating:
    return estimate(cells, AM_ELO)


def test_every_pair_of_scored_models_of_a_component(cells: Cells, fitted: Rating) -> None:
    matchups = predict_matchups(fitted, *np.append(np.triu_indices(6, 1), [[7], [8]], axis=1))
    score = run_round(cells, AM_ELO).models.score
    difference = (score[matchups.model_a] - score[matchups.model_b]) / ELO_PER_NATURAL
    np.testing.assert_allclose(matchups.probability, 1 / (1 + np.exp(-difference)), rtol=1e-12)


def test_intervals_are_made_of_the_covariance_on_the_log_odds(fitted: Rating) -> None:
    """Twin for one pair: the published gauge, the difference's own variance, t for clusters."""
    matchups = predict_matchups(fitted, np.array([4]), np.array([1]))
    assert fitted.covariance is not None
    scores = fitted.covariance.scores
    R, cov = fitted.fit.R, scores
    freedom = fitted.covariance.contrast_freedom(np.array([4]), np.array([1]))[0]
    half = stdtrit(freedom, 0.975) * np.sqrt(cov[4, 4] + cov[1, 1] - 2 * cov[4, 1])
    ends = [1 / (1 + np.exp(-(R[4] - R[1] + end))) for end in (-half, half)]
    np.testing.assert_allclose([matchups.lower[0], matchups.upper[0]], ends, rtol=1e-12)
    turned = predict_matchups(fitted, np.array([1]), np.array([4]))
    assert turned.probability[0] == pytest.approx(1 - matchups.probability[0])
    assert turned.lower[0] == pytest.approx(1 - matchups.upper[0])


def test_a_model_without_a_score_has_a_bound(fitted: Rating) -> None:
    """Model 6 won all of its 12 votes, two against each of the others."""
    every = np.arange(6)
    won = predict_matchups(fitted, np.full(6, 6), every)
    assert (won.upper == 1.0).all()
    assert ((won.lower > 0.0) & (won.lower < 1.0)).all()
    np.testing.assert_array_equal(won.probability, np.maximum(won.lower, 0.5))
    turned = predict_matchups(fitted, every, np.full(6, 6))
    np.testing.assert_allclose(turned.probability, 1.0 - won.probability)
    np.testing.assert_allclose(turned.upper, 1.0 - won.lower)


def test_of_two_models_without_scores_the_votes_on_them_bound_the_prediction() -> None:
    """One annotator's twenty wins of twenty; five of five the other way around; and two that never met."""
    pairs = np.repeat([(1, 0), (1, 2), (3, 2)], (20, 5, 5), axis=0)
    cells = aggregate(np.zeros(30, int), pairs[:, 0], pairs[:, 1], np.ones(30), n_annotators=1, n_models=4)
    found = predict_matchups(estimate(cells, AM_ELO), np.array([1, 2, 0]), np.array([0, 3, 2]))
    np.testing.assert_allclose(found.probability, [0.05 ** (1 / 20), 1 - 0.05 ** (1 / 5), 0.5])
    np.testing.assert_allclose(found.lower, [0.05 ** (1 / 20), 0.0, 0.0])
    np.testing.assert_allclose(found.upper, [1.0, 1 - 0.05 ** (1 / 5), 1.0])


def test_what_cannot_be_compared_has_no_prediction(fitted: Rating) -> None:
    """Another component, and no votes."""
    a, b = np.array([0, 0, 6]), np.array([7, 9, 9])
    matchups = predict_matchups(fitted, a, b)
    for values in (matchups.probability, matchups.lower, matchups.upper):
        assert np.isnan(values).all()


def test_without_a_covariance_there_are_no_intervals(cells: Cells) -> None:
    none = LoopSettings(min_votes=0, interval="none")
    matchups = predict_matchups(estimate(cells, none), *np.triu_indices(6, 1))
    assert np.isfinite(matchups.probability).all()
    assert np.isnan(matchups.lower).all()
    assert np.isnan(matchups.upper).all()
