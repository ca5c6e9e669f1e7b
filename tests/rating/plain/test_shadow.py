from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit

from app.rating.plain.likelihood import shadow_abilities
from app.rating.simulation.worlds import SimulatedVotes, simulate_votes
from app.rating.votes.cells import Cells, aggregate

MakeCells = Callable[[SimulatedVotes], Cells]


def test_each_ability_is_its_own_one_dimensional_maximum(cells_of: MakeCells) -> None:
    votes = simulate_votes(3, n_models=6, roles={"honest": 5, "flip": 2, "random": 2}, votes_each=60)
    cells = cells_of(votes)
    R = (votes.world.score - 1000) / 173.7
    theta, se = shadow_abilities(cells, R)
    for k in range(9):
        mine = cells.where(cells.annotator == k)
        d = R[mine.model_a] - R[mine.model_b]

        def loss(x: float, mine: Cells = mine, d: np.ndarray = d) -> float:
            return float(np.sum(mine.n * np.logaddexp(0, x * d) - mine.s * x * d))

        best = minimize_scalar(loss, bounds=(-20, 20), method="bounded", options={"xatol": 1e-9})
        assert theta[k] == pytest.approx(best.x, abs=1e-5)
        step = 1e-3
        curvature = (loss(theta[k] + step) + loss(theta[k] - step) - 2 * loss(theta[k])) / step**2
        assert se[k] == pytest.approx(1 / np.sqrt(curvature), rel=1e-3)


def test_the_always_right_have_no_ability() -> None:
    cells = aggregate(
        np.array([0, 0, 1, 1]), np.array([0, 0, 0, 0]), np.array([1, 1, 1, 1]), np.array([1.0, 1.0, 1.0, 0.0]),
        n_annotators=3, n_models=2,
    )  # fmt: skip
    theta, se = shadow_abilities(cells, np.array([1.0, -1.0]))
    assert np.isnan(theta[0])
    assert np.isnan(se[0])
    assert np.isnan(theta[2]), "who did not vote"
    assert theta[1] == pytest.approx(0.0, abs=1e-9)


def test_those_who_are_found_wait_for_the_others(cells_of: MakeCells) -> None:
    """A last step below rounding is no step out of the bracket, which has no upper end for some."""
    cells = cells_of(simulate_votes(3, n_models=6, roles={"honest": 40}, votes_each=8))
    R = np.linspace(1.0, -1.0, 6)
    theta, se = shadow_abilities(cells, R)
    d = R[cells.model_a] - R[cells.model_b]
    slope = np.bincount(cells.annotator, (cells.s - cells.n * expit(theta[cells.annotator] * d)) * d)
    found = np.isfinite(theta)
    assert found.sum() > 20
    np.testing.assert_allclose(slope[found], 0.0, atol=1e-9)
    assert np.isfinite(se[found]).all()
    assert np.isnan(theta[~found]).all()
