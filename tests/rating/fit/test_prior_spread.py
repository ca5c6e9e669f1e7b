"""The spread of abilities, estimated."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from app.rating.fit.prior_spread import ASKED, _Marginal, estimate_prior, estimate_spread
from app.rating.fit.result import PriorSpread
from app.rating.fit.weights import first_abilities
from scipy.integrate import quad

from app.rating.fit.m_elo import fit_m_elo_unchecked
from app.rating.settings import LoopSettings
from app.rating.simulation.worlds import SimulatedVotes, draw_pairs, make_world, simulate_votes
from app.rating.verdict.round import run_round
from app.rating.votes.cells import Cells, aggregate

MakeCells = Callable[[SimulatedVotes], Cells]
ONE = np.zeros(20, dtype=np.int64)


def crowd(seed: int, spread: float, annotators: int = 150, votes_each: int = 80, tie_share: float = 0.35) -> Cells:
    """Votes of annotators with abilities N(1, spread²)."""
    generator = np.random.default_rng(seed)
    world = make_world(generator, roles={"honest": annotators}, tie_share=tie_share)
    world = replace(world, ability=1.0 + spread * generator.standard_normal(annotators))
    annotator = np.repeat(np.arange(annotators), votes_each)
    a, b = draw_pairs(generator, 20, len(annotator))
    outcome = world.vote(annotator, a, b, generator)
    return aggregate(annotator, a, b, outcome, n_annotators=annotators, n_models=20)


def prior_of(cells: Cells) -> PriorSpread:
    return estimate_prior(cells, *first_abilities(cells, fit_m_elo_unchecked(cells, ONE).R))


@pytest.mark.parametrize(
    ("spread", "tie_share"),
    [
        pytest.param(0.25, 0.35, marks=pytest.mark.campaign),
        pytest.param(0.25, 0.0, marks=pytest.mark.campaign),
        (0.5, 0.0),
        pytest.param(0.5, 0.35, marks=pytest.mark.campaign),
    ],
)
def test_a_known_spread_is_recovered_within_its_uncertainty(spread: float, tie_share: float) -> None:
    found = [prior_of(crowd(seed, spread, tie_share=tie_share)) for seed in range(12)]
    z = np.array([(prior.spread - spread) / prior.se for prior in found])
    assert {prior.source for prior in found} == {"estimated"}
    assert abs(z.mean()) < 1.0  # bias below one standard error of one crowd
    assert 0.5 < z.std(ddof=1) < 1.8


def test_votes_with_ties_vary_less_and_those_without_as_they_should() -> None:
    for tie_share, expected in ((0.0, 1.0), (0.35, 0.65)):
        cells = crowd(1, 0.3, tie_share=tie_share)
        prior = prior_of(cells)
        assert prior.dispersion == pytest.approx(expected, abs=0.03)
        assert prior.sd == pytest.approx(prior.spread / math.sqrt(prior.dispersion))


def test_the_marginal_likelihood_is_near_the_integral_and_its_slope_exact(cells_of: MakeCells) -> None:
    votes = simulate_votes(5, n_models=6, roles={"honest": 5, "flip": 1}, votes_each=60)
    cells = cells_of(votes)
    R = (votes.world.score - 1000) / 173.7
    marginal = _Marginal(cells, R, 1.0)
    for sd in (0.2, 0.6, 2.0):
        exact = 0.0
        for k in range(6):
            mine = cells.where(cells.annotator == k)
            d = R[mine.model_a] - R[mine.model_b]

            def density(theta: float, mine: Cells = mine, d: np.ndarray = d, sd: float = sd) -> float:
                own = float(np.sum(mine.s * theta * d - mine.n * np.logaddexp(0, theta * d)))
                return math.exp(own + 40 - (theta - 1) ** 2 / (2 * sd**2)) / (sd * math.sqrt(2 * math.pi))

            exact += math.log(quad(density, -8, 10, points=(-1, 0, 1), limit=200)[0]) - 40
        value, slope = marginal.at(math.log(sd))
        assert value == pytest.approx(exact, abs=0.1)
        step = 1e-4
        numeric = (marginal.at(math.log(sd) + step)[0] - marginal.at(math.log(sd) - step)[0]) / (2 * step)
        assert slope == pytest.approx(numeric, rel=1e-4)


def test_without_a_spread_the_least_is_taken(cells_of: MakeCells) -> None:
    cells = cells_of(simulate_votes(6, roles={"honest": 40}, ability_sd=0.0))
    rating = run_round(cells, LoopSettings(prior_sd="estimated"))
    assert rating.diagnostics.ability_spread is None
    assert rating.diagnostics.warnings == (), "equally able annotators are nothing to speak of"
    assert rating.diagnostics.prior_sd == pytest.approx(0.1 / math.sqrt(0.65), rel=0.05)


def test_everything_tied_has_the_least_spread() -> None:
    cells = crowd(1, 0.3)
    tied = replace(cells, s=cells.n / 2, ties=cells.n)
    rating = run_round(tied, LoopSettings(prior_sd="estimated"))
    assert np.allclose(rating.models.score, 1000.0)
    assert rating.diagnostics.ability_spread is None
    assert [notice.code for notice in rating.diagnostics.warnings] == ["all-tied"]


def test_two_camps_have_a_spread_beyond_the_largest() -> None:
    generator = np.random.default_rng(2)
    a, b = draw_pairs(generator, 20, 6000)
    camp = np.repeat([True, False], 3000)
    cells = aggregate(
        np.repeat(np.arange(60), 100), a, b, ((a > b) == camp).astype(float), n_annotators=60, n_models=20
    )
    prior = estimate_spread(cells, np.linspace(-1, 1, 20))
    assert (prior.source, prior.spread) == ("at-most", pytest.approx(3.0))
    assert math.isnan(prior.se)


def test_few_annotators_are_estimated_as_many_are(cells_of: MakeCells) -> None:
    cells = cells_of(simulate_votes(7, n_models=5, roles={"honest": 7, "random": 2}))
    found = run_round(cells, LoopSettings(prior_sd="estimated")).diagnostics
    assert found.ability_spread is not None
    assert 0.1 < found.ability_spread < 3.0
    alone = run_round(cells.where(cells.annotator == 0), LoopSettings(prior_sd="estimated"))
    assert alone.diagnostics.ability_spread is None


def test_a_warm_start_finds_the_same_spread_and_scores() -> None:
    cells, settings = crowd(3, 0.4), LoopSettings(prior_sd="estimated")
    cold = run_round(cells, settings)
    known = cells.where(cells.annotator < 140)
    warm = run_round(cells, settings, start=run_round(known, settings).optimum)
    assert cold.diagnostics.ability_spread == pytest.approx(0.4, abs=0.1)
    assert warm.diagnostics.ability_spread == pytest.approx(cold.diagnostics.ability_spread, rel=1e-8)
    np.testing.assert_allclose(warm.models.score, cold.models.score, atol=1e-8)
    np.testing.assert_allclose(warm.annotators.ability, cold.annotators.ability, atol=1e-8)


def test_the_prior_in_force_is_the_one_reported() -> None:
    cells = crowd(4, 0.4)
    estimated = run_round(cells, LoopSettings(prior_sd="estimated"))
    given = run_round(cells, LoopSettings(prior_sd=estimated.diagnostics.prior_sd))
    np.testing.assert_allclose(given.models.score, estimated.models.score, atol=1e-6)
    assert given.diagnostics.ability_spread is None


def test_of_many_annotators_some_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = crowd(5, 0.4, annotators=300, votes_each=60)
    everyone = prior_of(cells)
    assert cells.n_annotators < ASKED
    monkeypatch.setattr("app.rating.fit.prior_spread.ASKED", 100)
    some = prior_of(cells)
    assert some.se == pytest.approx(everyone.se * math.sqrt(3), rel=0.3)
    assert abs(some.spread - everyone.spread) < 3 * some.se
