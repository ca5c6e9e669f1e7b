import math

import numpy as np
import pytest

from app.rating.plain.joint import fit_joint
from app.rating.plain.m_elo import fit_m_elo
from app.rating.votes.cells import Cells
from stable_arena_lab.arenas import Arena
from stable_arena_lab.consistency import compare_starts
from stable_arena_lab.descent import VARIANTS, Variant, descend
from stable_arena_lab.methods import rate

C = math.log(10) / 400


def loss_of(cells: Cells, variant: Variant, R: np.ndarray, theta: np.ndarray) -> float:
    scale = {
        "m-elo": C,
        "am-elo": (theta / theta.sum())[cells.annotator],
        "am-elo unnormalised": theta[cells.annotator],
    }
    x = scale[variant] * (R[cells.model_a] - R[cells.model_b])
    return float(-np.sum(cells.s * x - cells.n * np.logaddexp(0, x)) / cells.n.sum())


def slope(cells: Cells, variant: Variant, point: np.ndarray) -> np.ndarray:
    """Central differences of the loss over (R, θ) in one vector."""
    n, step = cells.n_models, 1e-3 if variant == "m-elo" else 1e-6  # an Elo point is small
    out = np.empty_like(point)
    for i in range(len(point)):
        up, down = point.copy(), point.copy()
        up[i] += step
        down[i] -= step
        out[i] = (loss_of(cells, variant, up[:n], up[n:]) - loss_of(cells, variant, down[:n], down[n:])) / (2 * step)
    return out


@pytest.fixture
def few(arena: Arena) -> Cells:
    """The votes of three annotators on the first eight models."""
    rows = np.flatnonzero((arena.annotator < 3) & (arena.model_a < 8) & (arena.model_b < 8))
    votes = arena.take(rows)
    return Arena("few", votes.annotator, votes.model_a, votes.model_b, votes.outcome, 3, 8).cells()


@pytest.mark.parametrize("variant", VARIANTS)
def test_it_is_adam_on_the_mean_loss(few: Cells, variant: Variant) -> None:
    run = descend(few, variant, seed=3, steps=4, looks=20)
    assert run.steps.tolist() == [0, 1, 2, 3, 4]
    n = few.n_models
    generator = np.random.default_rng(3)
    width_R, width_theta = math.sqrt(6 / (n + 1)), math.sqrt(6 / (few.n_annotators + 1))
    point = np.concatenate([generator.uniform(-width_R, width_R, n), generator.uniform(-width_theta, width_theta, 3)])
    mean = square = np.zeros_like(point)
    for step in range(1, 6):
        np.testing.assert_allclose(run.scores[step - 1], point[:n], atol=1e-5)
        assert run.loss[step - 1] == pytest.approx(loss_of(few, variant, point[:n], point[n:]), abs=1e-6)
        gradient = slope(few, variant, point)
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        point = point - 0.1 * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)


def test_it_ends_at_the_solvers_maximum_or_its_mirror_image(arena: Arena) -> None:
    cells = arena.cells()
    best = fit_joint(cells)
    free = descend(cells, "am-elo unnormalised", seed=0)
    assert free.loss[-1] == pytest.approx(-best.log_likelihood / 4321, abs=1e-5)
    correlation = np.corrcoef(free.scores[-1], best.R)[0, 1]
    assert abs(correlation) > 0.9999
    normalised = descend(cells, "am-elo", seed=0)
    assert normalised.theta.sum() == pytest.approx(1.0)
    assert np.corrcoef(normalised.scores[-1], best.R)[0, 1] > 0.99


def test_two_thousand_steps_are_too_few_for_m_elo_in_elo_points(arena: Arena) -> None:
    """A step of Adam moves a score by 0.1 points at most, so 2,000 move it by 200."""
    cells = arena.cells()
    run = descend(cells, "m-elo", seed=0)
    assert np.ptp(run.scores[-1]) < 400
    best = -fit_m_elo(cells).log_likelihood / 4321
    assert best + 0.005 < run.loss[-1] < run.loss[0]


@pytest.mark.campaign
def test_without_normalisation_groups_end_in_both_directions(arena: Arena) -> None:
    found = compare_starts(arena, groups=4, steps=300, shuffles=3)
    ending = {row.variant: row for row in found.endings}
    free, normalised = ending["am-elo unnormalised"], ending["am-elo"]
    assert free.consistency < 0.8
    assert normalised.consistency > 0.9
    assert free.lowest == pytest.approx(0.4, abs=0.01)
    assert set(free.share_of) <= {"0.4", "0.6", "1.0"}
    assert all(sum(row.share_of.values()) == pytest.approx(1.0) for row in found.endings)
    assert [look.step for look in found.looks if look.variant == "am-elo"][-1] == 300
    for look in found.looks:
        assert look.lowest - 1e-9 <= look.consistency <= look.highest + 1e-9


def test_the_solver_needs_no_start_and_elo_depends_on_its_shuffles(arena: Arena) -> None:
    found = compare_starts(arena, groups=1, steps=10, shuffles=2)
    reference = {row.method: row for row in found.references}
    for method in ("m-elo", "am-elo plain", "am-elo robust"):
        assert reference[method].consistency == 1.0
    assert reference["elo"].consistency is not None
    assert reference["elo"].consistency < 1.0
    plain, m_elo = rate(arena, "am-elo plain"), reference["m-elo"].loss
    assert plain is not None
    assert m_elo is not None
    p = plain.predict(arena)
    loss = -np.mean(arena.outcome * np.log(p) + (1 - arena.outcome) * np.log(1 - p))
    assert reference["am-elo plain"].loss == pytest.approx(loss)
    assert loss < m_elo
