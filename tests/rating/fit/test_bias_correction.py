"""Few votes an annotator bias abilities, and through them scores; the correction takes the first order out."""

from collections.abc import Callable

import numpy as np
import pytest
from app.rating.fit.am_elo import fit_am_elo

from app.rating.fit.abilities import shadow_abilities
from app.rating.fit.arrow import observe
from app.rating.fit.bias import correct_bias, first_order_bias, mean_score_gradient
from app.rating.fit.likelihood import Likelihood
from app.rating.settings import LoopSettings
from app.rating.simulation.worlds import SimulatedVotes, simulate_votes
from app.rating.verdict.round import run_round
from app.rating.votes.cells import Cells, aggregate

MakeCells = Callable[[SimulatedVotes], Cells]


def repeated(R: np.ndarray, ability: float, votes: int, times: int, seed: int) -> Cells:
    """Many annotators of one ability, each with new votes on the same pairs."""
    generator = np.random.default_rng(seed)
    a = np.tile(np.arange(votes) % len(R), times)
    b = (a + 1 + np.tile(np.arange(votes) // len(R), times) % (len(R) - 1)) % len(R)
    outcome = generator.random(votes * times) < 1 / (1 + np.exp(-ability * (R[a] - R[b])))
    annotator = np.repeat(np.arange(times), votes)
    return aggregate(annotator, a, b, outcome.astype(float), n_annotators=times, n_models=len(R))


@pytest.mark.parametrize("ability", [1.0, -0.7])
def test_the_bias_of_an_ability_is_what_repeated_draws_show(ability: float) -> None:
    R = np.array([-1.5, -0.6, 0.0, 0.5, 1.6])
    cells = repeated(R, ability, votes=80, times=4000, seed=1)
    theta, _ = shadow_abilities(cells, R, prior_sd=1000.0, ability_cap=None)
    bias = theta - shadow_abilities(cells, R, prior_sd=1000.0, ability_cap=None, bias_correction=True)[0]
    error, predicted = np.mean(theta - ability), np.mean(bias)
    assert abs(error) > 4 * np.std(theta) / np.sqrt(len(theta))  # there is something to correct
    assert predicted == pytest.approx(error, rel=0.35)


def test_the_pull_on_scores_is_what_repeated_draws_show() -> None:
    """The scores' gradient at the true scores, abilities at their own maxima: its mean is the pull.

    What is linear in the votes has mean 0 and would drown the rest: it is taken out.
    """
    R = np.array([-2.5, -0.8, 0.0, 0.5, 2.8])
    cells = repeated(R, 1.0, votes=60, times=10_000, seed=2)
    theta, se = shadow_abilities(cells, R, prior_sd=1000.0, ability_cap=None)
    likelihood = Likelihood(cells, 1000.0)
    d = R[cells.model_a] - R[cells.model_b]
    p = 1 / (1 + np.exp(-d))
    information = np.bincount(cells.annotator, cells.n * p * (1 - p) * d**2)
    answer = np.bincount(cells.annotator, (cells.s - cells.n * p) * d) / information
    linear = cells.s - cells.n * p * (1 + (1 - p) * d * answer[cells.annotator])
    of_theta = theta[cells.annotator] * (cells.s - cells.n / (1 + np.exp(-theta[cells.annotator] * d)))
    mean = likelihood.by_model(of_theta - linear, np.ones(10_000)) / 10_000
    pull = mean_score_gradient(likelihood, R, theta, se**2) / 10_000
    assert np.abs(mean).max() > 0.05
    np.testing.assert_allclose(pull, mean, atol=0.25 * np.abs(mean).max())


def test_an_ability_that_something_else_decides_has_no_bias(cells_of: MakeCells) -> None:
    cells = cells_of(simulate_votes(1, n_models=5, roles={"honest": 8}))
    likelihood, R, theta = Likelihood(cells, 1.0), np.linspace(-1, 1, 5), np.ones(8)
    assert first_order_bias(np.ones(8), np.ones(8), np.zeros(8)).tolist() == [0.0] * 8
    assert mean_score_gradient(likelihood, R, theta, np.zeros(8)).tolist() == [0.0] * 5


def test_nothing_moves_by_more_than_half_its_standard_error(cells_of: MakeCells) -> None:
    """Nine votes each: a first-order expansion would say more than it knows."""
    cells = cells_of(simulate_votes(4, n_models=5, roles={"honest": 900}, votes_each=9, score_sd=300))
    component = np.zeros(5, dtype=np.int64)
    fit = fit_am_elo(cells, component, prior_sd=1.0, ability_cap=None)
    observed = observe(cells, fit, component, prior_sd=1.0)
    corrected = correct_bias(fit, observed, cells, prior_sd=1.0, ability_cap=None)
    R, theta = corrected.scores, corrected.abilities
    shift = fit.R - R
    assert np.sqrt(shift @ observed.S @ shift) == pytest.approx(0.5 * np.sqrt(4))
    own, se = shadow_abilities(cells, R, prior_sd=1.0, ability_cap=None)
    assert np.all(np.abs(own - theta) <= 0.75 * se)  # half the sandwich's, which may be the larger one
    assert np.all(theta < own + 1e-9)


def simulated_scale(settings: LoopSettings, arenas: int, **world: object) -> float:
    """Mean slope of scores on the truth, in units of the mean honest annotator: 1 is right."""
    slopes = []
    for seed in range(arenas):
        votes = simulate_votes(seed, **world)  # type: ignore[arg-type]
        cells = aggregate(votes.annotator, votes.model_a, votes.model_b, votes.outcome, **votes.sizes)
        truth = votes.world.score - votes.world.score.mean()
        truth *= votes.world.ability[votes.world.role == "honest"].mean()
        score = run_round(cells, settings).models.score - 1000.0
        slopes.append((score @ truth) / (truth @ truth))
    return float(np.mean(slopes))


@pytest.mark.parametrize(
    "roles", [pytest.param({"honest": 120}, marks=pytest.mark.campaign), {"honest": 60, "random": 6}]
)
def test_scores_are_as_wide_as_they_should_be(roles: dict[str, int]) -> None:
    world = {"roles": roles, "votes_each": 51}
    uncorrected = LoopSettings(bias_correction=False, interval="none", influence_limit=None, prior_sd=1.0)
    assert simulated_scale(uncorrected, 10, **world) > 1.02  # the unit, of abilities at these scores, hides the rest
    assert simulated_scale(LoopSettings(interval="none"), 25, **world) == pytest.approx(1.0, abs=0.025)


def test_the_papers_estimator_and_m_elo_are_never_corrected(cells_of: MakeCells) -> None:
    cells = cells_of(simulate_votes(2, n_models=6, roles={"honest": 30}))
    for settings in ({"prior_sd": None, "ability_cap": None}, {"method": "m-elo"}):
        plain, asked = (
            run_round(cells, LoopSettings(bias_correction=on, **settings)).models.score  # type: ignore[arg-type]
            for on in (False, True)
        )
        np.testing.assert_array_equal(plain, asked)


def test_an_annotator_in_the_fit_and_one_outside_are_judged_alike(cells_of: MakeCells) -> None:
    """Published abilities are each annotator's own maximum at the published scores, as shadow abilities are."""
    votes = simulate_votes(3, n_models=8, roles={"honest": 40, "flip": 3})
    cells = cells_of(votes)
    rating = run_round(cells, LoopSettings(prior_sd=1.0))
    unit = rating.diagnostics.median_ability
    R = (rating.models.score - 1000.0) * np.log(10) / 400 / unit
    own, _ = shadow_abilities(cells, R, prior_sd=1.0, ability_cap=1.75, bias_correction=True)
    np.testing.assert_allclose(own / unit, rating.annotators.ability, atol=1e-9)
