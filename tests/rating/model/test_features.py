"""Votes with features: the equations beside a naive twin that sums over abilities and leans, and what they find."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, log_expit, logsumexp, stdtrit
from scipy.stats import norm

from app.rating.arrays import Floats
from app.rating.model.crowd import Crowd, Directions
from app.rating.model.crowds import Crowds
from app.rating.model.features import FeatureCrowd, FeatureFit, features_of, find_shadows, find_spread, fit_features
from app.rating.model.kernels import SLIP, STRICT
from app.rating.model.law import Found, Law
from app.rating.model.scores import Equations, combine, fit_scores
from app.rating.votes.cells import Cells
from app.rating.votes.features import featured_cells
from app.rating.votes.indexed import IndexedVotes
from app.rating.votes.measures import Features
from tests.rating.model.crowds import log_density
from tests.rating.model.styled_world import StyledWorld, draw_styled

LAW = Law(np.array([0.8, 0.12, 0.07, 0.01]), 0.35)
SPREAD = np.array([0.4])
THETA = np.arange(-3.0, 3.5, 0.05)
LEAN = np.arange(-2.4, 2.4, 0.08)


def cells_of(world: StyledWorld) -> Cells:
    return featured_cells(world.votes, world.features, world.compact())


@pytest.fixture(scope="module")
def tiny() -> Cells:
    """8 annotators with 40 votes each on four models, and one feature."""
    drawn = draw_styled(8, 40, n_models=4, seed=3)
    return cells_of(replace(drawn, features=Features(("length",), drawn.features.values[:, 1:])))


@pytest.fixture(scope="module")
def at(tiny: Cells) -> Floats:
    return np.array([0.8, 0.3, -0.3, -0.8, 0.25])


def log_likelihood(cells: Cells, R: Floats, law: Law = LAW) -> float:
    """Σ_k log ∫∫ L_k dG(θ) dN(b) by a fine sum over both: the naive twin."""
    z, total = features_of(cells)[:, 0], 0.0
    of_b = norm.logpdf(LEAN, 0.0, SPREAD[0]) + np.log(np.diff(LEAN)[0])
    of_theta = log_density(THETA, law) + np.log(np.diff(THETA)[0])
    for k in range(cells.n_annotators):
        own = cells.annotator == k
        plain, n, s = R[cells.model_a[own]] - R[cells.model_b[own]], cells.n[own], cells.s[own]
        d = plain + R[-1] * z[own]

        def weigh(theta: Floats, d: Floats = d, n: Floats = n, s: Floats = s, own: Floats = z[own]) -> Floats:
            x = theta[:, None, None] * d + LEAN[:, None] * own
            votes: Floats = (s * log_expit(x) + (n - s) * log_expit(-x)).sum(axis=2)
            return np.asarray(logsumexp(votes + of_b, axis=1))

        p = (1.0 - SLIP) * expit(STRICT * plain) + SLIP / 2.0
        follower = (s * np.log(p) + (n - s) * np.log1p(-p)).sum() + np.log(law.shares[3])
        coin = weigh(np.zeros(1)) + np.log(law.shares[1])
        total += float(logsumexp([*(weigh(THETA) + of_theta), *coin, follower]))
    return total


def look(cells: Cells, R: Floats) -> Crowds:
    """Set the nodes."""
    crowds = Crowds(cells, None, 1.0, R[: cells.n_models], kind=FeatureCrowd)
    crowds.each(FeatureCrowd.take_spread, np.resize(SPREAD, features_of(cells).shape[1]))
    crowds.each(Crowd.look, R, LAW.spread)
    return crowds


def expand(crowds: Crowds, R: Floats, size: int, law: Law = LAW) -> tuple[float, Floats, Equations]:
    """Return the log-likelihood, its gradient, and the equations."""
    crowds.each(Crowd.fill, R)
    found, directions = crowds.weigh(law), Directions.of(R, np.where(np.arange(len(R)) < size, 0, -1))
    sums = crowds.total(Crowd.contribute, directions, law)
    return found.value, sums.plain, combine(sums, R, directions, Found(law, found, np.zeros((4, 4))), 1.0)


def test_the_likelihood_is_that_of_the_twin(tiny: Cells, at: Floats) -> None:
    value = expand(look(tiny, at), at, 4)[0]
    assert value == pytest.approx(log_likelihood(tiny, at), abs=0.05)


def test_the_likelihood_of_coins_is_that_of_the_twin(tiny: Cells, at: Floats) -> None:
    law = Law(np.array([1e-12, 1.0, 1e-12, 1e-12]), 0.35)
    value = expand(look(tiny, at), at, 4, law)[0]
    assert value == pytest.approx(log_likelihood(tiny, at, law), abs=0.1)


def test_the_plain_equations_are_the_gradient_of_the_likelihood(tiny: Cells, at: Floats) -> None:
    law = Law(np.array([0.81, 0.12, 0.07, 1e-12]), 0.35)  # a follower's votes are said to tell nothing of the scores
    crowds = look(tiny, at)
    found = expand(crowds, at, 4, law)[1]
    for i in range(len(at)):
        moved = 1e-4 * (np.arange(len(at)) == i)
        up, down = (expand(crowds, at + sign * moved, 4, law)[0] for sign in (1.0, -1.0))
        assert found[i] == pytest.approx((up - down) / 2e-4, abs=0.01), "of Laplace's likelihood"
        slope = (log_likelihood(tiny, at + moved, law) - log_likelihood(tiny, at - moved, law)) / 2e-4
        assert found[i] == pytest.approx(slope, abs=0.1), "of the twin's"


def test_the_jacobian_is_nearly_the_derivative_of_the_equations() -> None:
    cells = cells_of(draw_styled(20, 60, n_models=5))
    R = np.array([0.9, 0.4, 0.0, -0.3, -0.9, 0.15, 0.35])
    crowds = look(cells, R)
    jacobian, step = expand(crowds, R, 5)[2].jacobian, 0.01
    for i in range(len(R)):
        moved = step * (np.arange(len(R)) == i)
        up, down = (expand(look(cells, at), at, 5)[2].value for at in (R + moved, R - moved))
        slope = (up - down) / (-2.0 * step)
        np.testing.assert_allclose(jacobian[:, i], slope, atol=0.03 * np.abs(slope).max())


@pytest.fixture(scope="module")
def world() -> StyledWorld:
    return draw_styled(150, 60)


@pytest.fixture(scope="module")
def fit(world: StyledWorld) -> FeatureFit:
    return fit_features(cells_of(world))


def test_scores_taste_and_leans_are_those_that_votes_were_drawn_from(world: StyledWorld, fit: FeatureFit) -> None:
    error = fit.gamma - world.gamma
    assert (np.abs(error) < 3.0 * np.sqrt(np.diag(fit.covariance.scores)[-2:])).all()
    np.testing.assert_allclose(fit.spread, 0.3, atol=0.07)
    centred = fit.scores - fit.scores.mean()
    assert centred @ world.R / (world.R @ world.R) == pytest.approx(1.0, abs=0.05)
    plain = fit_scores(cells_of(world)).R
    assert np.std(fit.scores - world.R) < 0.7 * np.std(plain - world.R)
    assert world.leans is not None
    assert np.corrcoef(fit.leans.own.ravel(), world.leans.ravel())[0, 1] > 0.6
    total = world.ability[:, None] * world.gamma + world.leans
    assert 0.9 < np.mean(np.abs(fit.leans.lean - total) < 1.96 * fit.leans.lean_sd) < 0.99


def test_neither_names_nor_sides_matter(world: StyledWorld, fit: FeatureFit) -> None:
    v, order = world.votes, np.random.default_rng(1).permutation(10).astype(np.int32)
    turned = IndexedVotes(
        v.annotators, v.models, np.int32(149) - v.annotator, order[v.model_b], order[v.model_a], 1.0 - v.outcome
    )
    other = replace(world, votes=turned, features=Features(world.features.names, -world.features.values))
    again = fit_features(cells_of(other))
    np.testing.assert_allclose(again.scores[order], fit.scores, atol=1e-4)
    np.testing.assert_allclose(again.gamma, fit.gamma, atol=1e-4)
    np.testing.assert_allclose(again.leans.own[::-1], fit.leans.own, atol=1e-3)


def test_annotators_outside_the_fit_have_the_leans_that_they_have_in_it(world: StyledWorld, fit: FeatureFit) -> None:
    shadows = find_shadows(fit, cells_of(world).of_annotators(0, 40))
    np.testing.assert_allclose(shadows.own, fit.leans.own[:40], atol=0.02)
    np.testing.assert_allclose(shadows.lean_sd, fit.leans.lean_sd[:40], rtol=0.05)


def test_leans_of_a_few_judges_say_how_little_is_known_of_them() -> None:
    held = []
    for seed in range(12):
        world = draw_styled(8, 300, seed=seed)
        fit = fit_features(cells_of(world))
        half = stdtrit(fit.covariance.freedom[-2:], 0.975) * np.sqrt(np.diag(fit.covariance.scores)[-2:])
        assert world.leans is not None
        own = np.abs(fit.leans.own - world.leans) < 1.96 * fit.leans.own_sd
        held.append([np.mean(np.abs(fit.gamma - world.gamma) < half), np.mean(own)])
    assert (np.mean(held, axis=0) > 0.85).all()


def test_features_that_differ_in_no_vote_of_an_annotator_and_one_annotator_alone() -> None:
    world = draw_styled(2, 80, n_models=4)
    values = world.features.values * (world.votes.annotator == 0)[:, None]
    fit = fit_features(cells_of(replace(world, features=Features(("a", "b"), values))))
    np.testing.assert_allclose(fit.leans.own[1], 0.0, atol=1e-6)
    np.testing.assert_allclose(fit.leans.own_sd[1], fit.spread, rtol=0.05)
    alone = fit_features(cells_of(draw_styled(1, 200, n_models=4)))
    assert np.isfinite(alone.covariance.scores).all()
    assert np.isfinite(alone.leans.lean_sd).all()


def test_an_annotator_without_votes_has_no_leans(world: StyledWorld) -> None:
    fit = fit_features(replace(cells_of(world), n_annotators=151))
    assert np.isnan(fit.leans.own[150]).all()


def test_the_spread_is_that_of_the_annotators_beside_their_errors() -> None:
    generator = np.random.default_rng(0)
    for true in (0.0, 0.3, 1.0):
        b = generator.normal(0.0, true, (400, 1)) + generator.normal(0.0, 0.2, (400, 1))
        spread = np.array([0.3])
        shrunk = spread**2 / (spread**2 + 0.04)
        mean, variance = shrunk * b, np.full_like(b, shrunk * 0.04)
        found = find_spread(mean, variance + mean**2, np.full_like(b, 1 / 400), spread)
        assert found[0] == pytest.approx(true, abs=0.08)


def test_votes_without_features_have_none(world: StyledWorld) -> None:
    with pytest.raises(ValueError, match="no features"):
        features_of(world.votes.aggregate())
