"""The fit of votes with features: its derivatives, and that it is a maximum of the objective written down plainly."""

from dataclasses import replace

import numpy as np
import pytest
from app.rating.fit.style import fit_style

from app.rating.arrays import Floats
from app.rating.errors import VotesError
from app.rating.fit.features import FeatureLikelihood, features_of
from app.rating.settings import LoopSettings
from app.rating.verdict.rating import Rating
from app.rating.verdict.round import run_round
from app.rating.votes.cells import Cells
from app.rating.votes.features import SIDE, Features, featured_cells, measure_features, refuse_constant
from app.rating.votes.indexed import IndexedVotes
from tests.fixtures.errors import having
from tests.rating.fit.styled_world import StyledWorld, draw_styled

SETTINGS = LoopSettings(min_votes=0, flag_rule="threshold")


def cells_of(world: StyledWorld, rating: Rating) -> tuple[Cells, Cells]:
    return featured_cells(world.votes, world.features, rating.small, rating.fit.weights(rating.small.cells))


@pytest.fixture(scope="module")
def world() -> StyledWorld:
    """12 annotators with 60 votes each on 5 models."""
    return draw_styled(12, 60, n_models=5)


@pytest.fixture(scope="module")
def rating(world: StyledWorld) -> Rating:
    """The round without features."""
    return run_round(world.votes.aggregate(), SETTINGS)


def test_derivatives_are_those_of_the_objective_with_the_leans_at_their_minimum(
    world: StyledWorld, rating: Rating
) -> None:
    cells, _ = cells_of(world, rating)
    likelihood = FeatureLikelihood(cells, 0.7, np.full((12, 2), 4.0), parts=2)
    R, theta, one, step = np.concatenate([world.R, world.gamma]), world.ability + 0.1, np.ones(12), 1e-5

    def slope(along: Floats, of_theta: Floats) -> tuple[float, Floats, Floats]:
        ends = [likelihood.expand(R + h * along, theta + h * of_theta) for h in (step, -step)]
        (up, down), twice = ends, 2 * step
        scores, abilities = up.gradient_scores - down.gradient_scores, up.gradient_abilities - down.gradient_abilities
        return (up.value - down.value) / twice, scores / twice, abilities / twice

    point, none = likelihood.expand(R, theta), np.zeros(7)
    reduced = point.profile
    rows = np.array([likelihood.by_model(point.cross, unit) for unit in np.eye(12)])
    for i, along in enumerate(np.eye(7)):
        value, scores, abilities = slope(along, 0 * one)
        assert value == pytest.approx(point.gradient_scores[i], abs=1e-6)
        assert scores == pytest.approx(reduced[i], abs=1e-6)
        assert abilities == pytest.approx(rows[:, i], abs=1e-6)
    for k, unit in enumerate(np.eye(12)):
        value, _, abilities = slope(none, unit)
        assert value == pytest.approx(point.gradient_abilities[k], abs=1e-6)
        assert abilities == pytest.approx(point.D[k] * unit, abs=1e-6)
    assert likelihood.times_rows(point.cross, R) == pytest.approx(rows @ R)
    assert likelihood.products(point.cross, one) == pytest.approx(rows.T @ rows)
    assert likelihood.value(R, theta) == pytest.approx(point.value)


def test_the_fit_is_stationary_in_every_parameter(world: StyledWorld, rating: Rating) -> None:
    cells, votes = cells_of(world, rating)
    found = fit_style(cells, votes, rating.fit, np.zeros(5, dtype=np.int64), cap=None, bias_correction=False)
    likelihood, fit = found.observed.likelihood, found.fit
    assert isinstance(likelihood, FeatureLikelihood)
    z, b, R, gamma, cells = likelihood.z, likelihood.leans, fit.R[:5], fit.R[5:], likelihood.cells
    k, d = cells.annotator, fit.R[cells.model_a] - fit.R[cells.model_b] + z @ gamma
    x = fit.theta[k] * d + (z * b[k]).sum(axis=1)
    residual = cells.s - cells.n / (1 + np.exp(-x))
    pulled = residual * fit.theta[k]
    by_model = np.bincount(cells.model_a, pulled, 5) - np.bincount(cells.model_b, pulled, 5)
    by_ability = np.bincount(k, residual * d, 12) - (fit.theta - 1) / (fit.prior_sd or 1) ** 2
    multiplier = by_ability / (1 - np.tanh((fit.theta - 1) / 0.3) ** 2)
    assert by_model == pytest.approx(0, abs=1e-6)
    assert pulled @ z == pytest.approx(0, abs=1e-6)
    assert multiplier == pytest.approx(multiplier.mean(), abs=1e-5)
    of_leans = np.array([np.bincount(k, residual * column, 12) for column in z.T]).T
    assert of_leans == pytest.approx(likelihood.lean_precision * b, abs=1e-6)
    assert R.sum() == pytest.approx(0)


def test_a_feature_that_leans_all_but_explain_converges() -> None:
    """Where three annotators lean far, little is left to say what the crowd prefers: leans take most off A."""
    drawn = draw_styled(3, 400, n_models=5, lean_sd=2.0, seed=0)
    world = replace(drawn, features=Features(("length",), drawn.features.values[:, 1:]))
    plain = run_round(world.votes.aggregate(), SETTINGS)
    found = fit_style(*cells_of(world, plain), plain.fit, np.zeros(5, dtype=np.int64), cap=None, bias_correction=False)
    assert found.fit.iterations < 20
    fit, likelihood = found.fit, found.observed.likelihood
    point = likelihood.expand(fit.R, fit.theta)
    assert point.gradient_scores == pytest.approx(0, abs=1e-5)


def test_votes_are_weighed_by_abilities_beside_leans(world: StyledWorld, rating: Rating) -> None:
    component = np.zeros(5, dtype=np.int64)
    cells, votes = cells_of(world, rating)
    found = fit_style(cells, votes, rating.fit, component, cap=None, bias_correction=False)
    before, after = rating.fit.weighted, found.fit.weighted
    assert before is not None
    assert after is not None
    again = after.by_ability
    assert not np.allclose(again, before.by_ability)
    assert after.cells.n / cells.n == pytest.approx((again / before.by_ability)[cells.annotator])
    plain = run_round(world.votes.aggregate(), replace(SETTINGS, influence_limit=None))
    alike = fit_style(*cells_of(world, plain), plain.fit, component, cap=None, bias_correction=False)
    assert alike.fit.weighted is None


def test_sides_and_the_numbering_of_models_do_not_matter(world: StyledWorld, rating: Rating) -> None:
    votes, values = world.votes, world.features.values
    turned = replace(votes, model_a=4 - votes.model_b, model_b=4 - votes.model_a, outcome=1 - votes.outcome)
    other = StyledWorld(turned, Features(world.features.names, -values), world.R[::-1], world.gamma, world.ability)
    component, found = np.zeros(5, dtype=np.int64), []
    for one in (world, other):
        plain = run_round(one.votes.aggregate(), SETTINGS)
        found.append(fit_style(*cells_of(one, plain), plain.fit, component, cap=None, bias_correction=True))
    first, second = found
    assert second.fit.scores[:5][::-1] == pytest.approx(first.fit.scores[:5], abs=1e-6)
    assert second.fit.scores[5:] == pytest.approx(first.fit.scores[5:], abs=1e-6)
    assert second.own == pytest.approx(first.own, abs=1e-6)


def test_votes_without_features_have_none(world: StyledWorld) -> None:
    with pytest.raises(ValueError, match="no features"):
        features_of(world.votes.aggregate())


def test_features_are_measured_from_both_answers() -> None:
    columns = {"length": (np.array([30.0, 0.0]), np.array([10.0, 0.0])), "tone": (np.array([-1.0, 2]), np.ones(2))}
    found = measure_features((SIDE, "length", "tone"), columns, 2)
    assert found.values == pytest.approx(np.array([[1, np.sqrt(2), -2 / np.sqrt(2.5)], [1, 0, 1 / np.sqrt(2.5)]]))


@pytest.mark.parametrize(("names", "code"), [(("tone",), "column"), ((SIDE, SIDE), "value"), (("same",), "value")])
def test_features_that_are_none_are_refused(names: tuple[str, ...], code: str) -> None:
    with pytest.raises(VotesError, check=having(code=code)):
        measure_features(names, {"same": (np.ones(3), np.ones(3))}, 3)


def test_a_feature_that_only_tells_models_apart_is_refused(world: StyledWorld) -> None:
    votes: IndexedVotes = world.votes
    values = np.column_stack([votes.model_a - votes.model_b, world.features.values[:, 1]]).astype(float)
    plain = run_round(votes.aggregate(), SETTINGS)
    cells, _ = featured_cells(
        votes, Features(("size", "length"), values), plain.small, plain.fit.weights(plain.small.cells)
    )
    with pytest.raises(VotesError, match="size", check=having(code="value")):
        refuse_constant(cells, ("size", "length"))
