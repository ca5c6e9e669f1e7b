from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from app.rating.fit.abilities import shadow_abilities
from app.rating.simulation.worlds import SimulatedVotes, simulate_votes
from app.rating.votes.cells import Cells, aggregate

MakeCells = Callable[[SimulatedVotes], Cells]


@pytest.mark.parametrize("prior_sd", [None, 1.0, 0.3])
def test_each_ability_is_its_own_one_dimensional_maximum(cells_of: MakeCells, prior_sd: float | None) -> None:
    votes = simulate_votes(3, n_models=6, roles={"honest": 5, "flip": 2, "random": 2}, votes_each=60)
    cells = cells_of(votes)
    R = (votes.world.score - 1000) / 173.7
    theta, se = shadow_abilities(cells, R, prior_sd=prior_sd, ability_cap=None)
    for k in range(9):
        mine = cells.where(cells.annotator == k)
        d = R[mine.model_a] - R[mine.model_b]

        def loss(x: float, mine: Cells = mine, d: np.ndarray = d) -> float:
            prior = 0.0 if prior_sd is None else (x - 1) ** 2 / (2 * prior_sd**2)
            return float(np.sum(mine.n * np.logaddexp(0, x * d) - mine.s * x * d)) + prior

        best = minimize_scalar(loss, bounds=(-20, 20), method="bounded", options={"xatol": 1e-9})
        assert theta[k] == pytest.approx(best.x, abs=1e-5)
        step = 1e-3
        curvature = (loss(theta[k] + step) + loss(theta[k] - step) - 2 * loss(theta[k])) / step**2
        assert se[k] == pytest.approx(1 / np.sqrt(curvature), rel=1e-3)


def test_the_cap_holds_and_the_absent_are_nan(cells_of: MakeCells) -> None:
    cells = cells_of(simulate_votes(3, n_models=6, roles={"honest": 4}, votes_each=60))
    R = np.linspace(-0.1, 0.1, 6)  # far too close together: all annotators look able
    theta, _ = shadow_abilities(cells.where(cells.annotator != 2), R, prior_sd=10.0, ability_cap=1.5)
    assert np.isnan(theta[2])
    assert np.nanmax(theta) <= 1.5


def test_without_a_prior_the_always_right_have_no_ability() -> None:
    cells = aggregate(
        np.array([0, 0, 1, 1]), np.array([0, 0, 0, 0]), np.array([1, 1, 1, 1]), np.array([1.0, 1.0, 1.0, 0.0]),
        n_annotators=2, n_models=2,
    )  # fmt: skip
    theta, se = shadow_abilities(cells, np.array([1.0, -1.0]), prior_sd=None, ability_cap=None)
    assert np.isnan(theta[0])
    assert np.isnan(se[0])
    assert theta[1] == pytest.approx(0.0, abs=1e-9)
