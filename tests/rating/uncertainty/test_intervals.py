from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from app.rating.errors import SaddlePointError
from app.rating.fitted import FitResult
from app.rating.plain.joint import fit_joint
from app.rating.plain.likelihood import Likelihood
from app.rating.plain.m_elo import fit_m_elo
from app.rating.settings import Interval, LoopSettings
from app.rating.simulation.worlds import SimulatedVotes, simulate_votes
from app.rating.uncertainty.covariance import Covariance
from app.rating.uncertainty.freedom import critical_values
from app.rating.uncertainty.plain_covariance import degrees_of_freedom, plain_covariance
from app.rating.verdict.rating import estimate
from app.rating.verdict.round import run_round
from app.rating.votes.cells import Cells, aggregate

MakeCells = Callable[[SimulatedVotes], Cells]


def numeric_covariance(votes: SimulatedVotes, kind: str) -> np.ndarray:
    """Sum of squared influences, by nudging the weight of one vote or annotator after the other and fitting again.

    Of votes that say the same one is nudged.
    """
    cells = aggregate(votes.annotator, votes.model_a, votes.model_b, votes.outcome, **votes.sizes)
    full = fit_joint(cells)
    if kind == "clustered":
        units, times = np.unique(votes.annotator), 1
        nudges = [votes.annotator == each for each in units]
    else:
        swapped = votes.model_a > votes.model_b
        pair = np.where(swapped, (votes.model_b, votes.model_a), (votes.model_a, votes.model_b))
        said = np.vstack([votes.annotator, pair, np.where(swapped, 1 - votes.outcome, votes.outcome)])
        _, units, times = np.unique(said, axis=1, return_index=True, return_counts=True)
        nudges = [np.arange(len(votes.annotator)) == each for each in units]
    draws = []
    for each, nudge in zip(units, nudges, strict=True):
        weight = np.where(nudge, 1e-3, 0.0) + 1.0
        nudged = aggregate(votes.annotator, votes.model_a, votes.model_b, votes.outcome, weight=weight, **votes.sizes)
        fit = fit_joint(nudged, start=(full.R, full.theta))
        # a vote changes abilities and so the unit; another weight of an annotator is another crowd
        counted = np.where(units == each, 1.001, 1.0) if kind == "clustered" else np.ones(votes.sizes["n_annotators"])
        draws.append((fit.R * np.average(fit.theta, weights=counted) - full.R) / 1e-3)
    influence = np.array(draws)
    factor = len(units) / (len(units) - 1) if kind == "clustered" else 1.0
    result: np.ndarray = (influence.T * times) @ influence * factor
    return result


@pytest.mark.parametrize(("kind", "annotators"), [("clustered", 40), ("sandwich", 20)])
def test_sandwiches_are_the_sum_of_squared_influences(cells_of: MakeCells, kind: Any, annotators: int) -> None:
    """Where no annotator supplies more than a twentieth of the information on a model."""
    votes = simulate_votes(11, n_models=4, roles={"honest": annotators}, votes_each=40)
    cells = cells_of(votes)
    component = np.zeros(4, dtype=np.int64)
    ours = plain_covariance(cells, fit_joint(cells), component, kind, has_abilities=True)
    assert ours.kind == kind
    np.testing.assert_allclose(ours.scores, numeric_covariance(votes, kind), rtol=0.03, atol=5e-5)


def test_information_is_the_inverse_of_the_joint_hessian_with_abilities_profiled_out(cells_of: MakeCells) -> None:
    cells = cells_of(simulate_votes(12, n_models=5, roles={"honest": 8}, votes_each=60))
    fit, likelihood, counts = fit_joint(cells), Likelihood(cells), np.ones(8, dtype=bool)
    at = likelihood.expand(fit.R, fit.theta)
    B = likelihood.rows(at.cross).toarray()
    unit, shift = np.append(np.zeros(5), counts), np.append(np.ones(5), np.zeros(8))
    border = np.column_stack([shift, unit])
    joint = np.block([[at.A, B.T], [B, np.diag(at.D)]])
    covariance_of_both = np.linalg.inv(np.block([[joint, border], [border.T, np.zeros((2, 2))]]))[:13, :13]
    ours = plain_covariance(cells, fit, np.zeros(5, dtype=np.int64), "information", has_abilities=True)
    np.testing.assert_allclose(ours.scores, covariance_of_both[:5, :5], rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(ours.ability_se**2, np.diag(covariance_of_both)[5:], rtol=1e-6)


def test_a_saddle_point_has_no_covariance(cells_of: MakeCells) -> None:
    """Where all scores are nearly equal, abilities gain by any difference of them that the votes ask for."""
    cells = cells_of(simulate_votes(1, n_models=6, roles={"honest": 25}, votes_each=40))
    saddle = FitResult(np.linspace(-0.01, 0.01, 6), np.ones(25), 0.0, 0)
    with pytest.raises(SaddlePointError):
        plain_covariance(cells, saddle, np.zeros(6, dtype=np.int64), "clustered", has_abilities=True)


def test_one_annotator_alone_has_the_plain_sandwich_and_a_notice(cells_of: MakeCells) -> None:
    alone = run_round(cells_of(simulate_votes(1, n_models=4, roles={"honest": 1})), LoopSettings())
    assert alone.diagnostics.interval == "sandwich"
    assert "few-annotators" in {notice.code for notice in alone.diagnostics.warnings}
    three = run_round(cells_of(simulate_votes(1, n_models=4, roles={"honest": 3})), LoopSettings())
    assert three.diagnostics.interval == "clustered"
    assert any("3 annotators are fewer than 5" in notice.detail for notice in three.diagnostics.warnings)
    enough = run_round(cells_of(simulate_votes(1, n_models=4, roles={"honest": 5})), LoopSettings())
    assert "few-annotators" not in {notice.code for notice in enough.diagnostics.warnings}


def test_scores_that_are_equal_have_an_interval_too() -> None:
    cells = aggregate([0, 1, 0], [0, 1, 0], [1, 0, 1], [1.0, 1.0, 0.5], n_annotators=2, n_models=2)
    models = run_round(cells, LoopSettings(min_votes=0)).models
    np.testing.assert_allclose(models.score, 1000.0, atol=2.0)
    assert np.all(models.upper - models.lower > 400.0), models


def test_critical_values_are_students_t() -> None:
    found = critical_values(np.array([1.0, 20.0, np.inf]), 0.95)
    np.testing.assert_allclose(found, [12.7062, 2.08596, 1.95996], atol=1e-4)


def test_freedom_is_that_of_the_annotators_who_tell(cells_of: MakeCells) -> None:
    """60 equal annotators have nearly 59 degrees of freedom; the same votes in unequal hands have far fewer."""
    votes = simulate_votes(4, n_models=5, roles={"honest": 60}, votes_each=100, ability_sd=0.0)
    few = votes.annotator // np.where(votes.annotator < 32, 8, 1)  # four have 8 times the votes of the others
    settings = LoopSettings(min_votes=0, method="m-elo")
    even, uneven = (
        estimate(aggregate(who, votes.model_a, votes.model_b, votes.outcome, **votes.sizes), settings).covariance
        for who in (votes.annotator, few)
    )
    assert even is not None
    assert uneven is not None
    np.testing.assert_allclose(even.freedom, 59, rtol=0.1)
    np.testing.assert_allclose(uneven.freedom, 1 / (4 * (8 / 60) ** 2 + 28 / 60**2) - 1, rtol=0.1)


def test_a_differences_freedom_lies_between_its_models() -> None:
    scores = np.diag([1.0, 3.0])
    both = Covariance(scores, scores, np.zeros(1), "clustered", 9, np.array([2.0, 8.0]), np.array([3, 9]))
    one, other = np.array([0]), np.array([1])
    assert both.contrast_freedom(one, other)[0] == pytest.approx(4 / (1 / 2 + 3 / 8))


def test_m_elo_sandwich_of_a_well_specified_model_is_near_the_information(cells_of: MakeCells) -> None:
    votes = simulate_votes(2, n_models=5, roles={"honest": 40}, votes_each=400, ability_sd=0.0, tie_share=0.0)
    cells = cells_of(votes)
    kinds: tuple[Interval, ...] = ("information", "sandwich", "clustered")
    component, fit = np.zeros(5, dtype=np.int64), fit_m_elo(cells)
    se = {
        kind: np.sqrt(np.diag(plain_covariance(cells, fit, component, kind, has_abilities=False).scores))
        for kind in kinds
    }
    np.testing.assert_allclose(se["sandwich"], se["information"], rtol=0.05)
    np.testing.assert_allclose(se["clustered"], se["information"], rtol=0.5)


def test_an_anchor_shifts_the_scores_and_leaves_the_intervals_as_wide(cells_of: MakeCells) -> None:
    cells = cells_of(simulate_votes(3, n_models=5, roles={"honest": 30}))
    free = run_round(cells, LoopSettings())
    anchored = run_round(cells, LoopSettings(anchor=(2, 1234.0)))
    assert anchored.models.score[2] == pytest.approx(1234.0)
    np.testing.assert_allclose(np.diff(anchored.models.score), np.diff(free.models.score), rtol=1e-12)
    np.testing.assert_array_equal(anchored.models.se, free.models.se)
    np.testing.assert_allclose(anchored.models.upper - anchored.models.lower, free.models.upper - free.models.lower)


def test_a_variance_between_annotators_that_rounding_makes_negative_leaves_a_normal_interval() -> None:
    """As where the votes say nearly nothing: the rest of the variance is that of votes taken as independent."""
    found = degrees_of_freedom(*(np.array([x]) for x in (1e11, -4e4, 7e4, 1.2, 4.0)))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(critical_values(found, 0.95), 1.96, atol=1e-3)
