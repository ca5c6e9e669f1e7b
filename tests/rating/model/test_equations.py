"""The equations of the scores beside a naive twin, and their derivatives beside finite differences."""

import numpy as np
import pytest
from scipy.special import expit, log_expit, logsumexp

from app.rating.arrays import Floats
from app.rating.model.crowd import Crowd, Directions
from app.rating.model.crowds import Crowds
from app.rating.model.kernels import SLIP, STRICT
from app.rating.model.law import Found, Law, find_law
from app.rating.model.scores import TAKEN, Equations, combine
from app.rating.votes.cells import Cells
from tests.rating.model.crowds import Drawn, draw, log_density, look

LAW = Law(np.array([0.8, 0.1, 0.07, 0.03]), 0.35)
RANKING = np.linspace(-1.2, 1.2, 8)  # of the crowds, which followers follow
NODES = np.arange(-4.0, 4.0, 0.005) + 0.0025


def log_likelihood(cells: Cells, R: Floats, law: Law = LAW) -> float:
    """Σ_k log ∫ L_k dG by a fine sum: the naive twin."""
    d = R[cells.model_a] - R[cells.model_b]
    x = NODES[:, None] * d
    by_cell = cells.s * log_expit(x) + (cells.n - cells.s) * log_expit(-x)
    prior = log_density(NODES, law) + np.log(np.diff(NODES)[0])
    p = (1.0 - SLIP) * expit(STRICT * (RANKING[cells.model_a] - RANKING[cells.model_b])) + SLIP / 2.0
    total = 0.0
    for k in range(cells.n_annotators):
        own = cells.annotator == k
        follower = (cells.s * np.log(p) + (cells.n - cells.s) * np.log1p(-p))[own].sum()
        coin = -cells.n[own].sum() * np.log(2.0)
        terms = [*(by_cell[:, own].sum(axis=1) + prior), coin + np.log(law.shares[1]), follower + np.log(law.shares[3])]
        total += float(logsumexp(terms))
    return total


def equations(crowds: Crowds, R: Floats, law: Law = LAW) -> Equations:
    """The equations at the law, with the nodes that are set."""
    crowds.each(Crowd.fill, R)
    return combined(crowds, R, Found(law, crowds.weigh(law), np.zeros((4, 4))))


def profiled(crowds: Crowds, R: Floats) -> Equations:
    """The equations with the law that is found at the scores."""
    crowds.each(Crowd.fill, R)
    return combined(crowds, R, find_law(LAW, crowds.weigh))


def combined(crowds: Crowds, R: Floats, law: Found) -> Equations:
    directions = Directions.of(R, np.zeros(len(R), dtype=np.int64))
    return combine(crowds.total(Crowd.contribute, directions, law.law), R, directions, law, 1.0)


@pytest.fixture
def drawn() -> Drawn:
    return draw(30, 25, coins=3, contrary=2)


def test_a_draft_lacks_what_abilities_and_law_take_from_the_information(drawn: Drawn) -> None:
    crowds, R = look(drawn)
    crowds.weigh(LAW)
    directions = Directions.of(R, np.zeros(len(R), dtype=np.int64))
    whole, draft = (crowds.total(part, directions, LAW) for part in (Crowd.contribute, Crowd.draft))
    for name in ("weighted", "plain", "information", "stretched"):
        np.testing.assert_allclose(getattr(draft, name), getattr(whole, name), rtol=1e-12, atol=1e-12, err_msg=name)
    assert all(np.any(getattr(whole, name)) and not np.any(getattr(draft, name)) for name in TAKEN)


def test_the_likelihood_is_that_of_the_twin(drawn: Drawn) -> None:
    crowds, R = look(drawn, LAW)
    assert crowds.weigh(LAW).value == pytest.approx(log_likelihood(drawn.cells, R), abs=1e-3)


def test_the_plain_equations_are_the_gradient_of_the_likelihood(drawn: Drawn) -> None:
    law = Law(np.array([0.83, 0.1, 0.07, 1e-12]), 0.35)  # a follower's votes are said to tell nothing of the scores
    crowds, R = look(drawn, law)
    crowds.each(Crowd.fill, R)
    crowds.weigh(law)
    found = crowds.total(Crowd.contribute, Directions.of(R, np.zeros(len(R), dtype=np.int64)), law).plain
    step = 1e-4
    for model in (0, 3, 7):
        moved = step * (np.arange(len(R)) == model)
        slope = (log_likelihood(drawn.cells, R + moved, law) - log_likelihood(drawn.cells, R - moved, law)) / (2 * step)
        assert found[model] == pytest.approx(slope, abs=3e-3)


def test_the_jacobian_is_the_derivative_of_the_equations(drawn: Drawn) -> None:
    crowds, R = look(drawn, LAW)
    R = R + np.random.default_rng(1).normal(0.0, 0.2, len(R))  # away from the solution every term counts
    jacobian, step = equations(crowds, R).jacobian, 1e-5
    for model in range(len(R)):
        moved = step * (np.arange(len(R)) == model)
        slope = (equations(crowds, R + moved).value - equations(crowds, R - moved).value) / -(2 * step)
        np.testing.assert_allclose(jacobian[:, model], slope, atol=0.01 * np.abs(slope).max())


def test_the_profiled_jacobian_follows_the_law(drawn: Drawn) -> None:
    crowds, R = look(drawn, LAW)
    jacobian, step = profiled(crowds, R).profiled, 1e-4
    for model in range(len(R)):
        moved = step * (np.arange(len(R)) == model)
        slope = (profiled(crowds, R + moved).value - profiled(crowds, R - moved).value) / -(2 * step)
        np.testing.assert_allclose(jacobian[:, model], slope, atol=0.005 * np.abs(slope).max())


def test_an_annotator_in_parts_adds_up(drawn: Drawn) -> None:
    """The sums over the annotators do not depend on how they are cut."""
    crowds, R = look(drawn, LAW)
    whole = equations(crowds, R)
    halves = [drawn.cells.of_annotators(0, 13), drawn.cells.of_annotators(13, 30)]
    total = 0.0
    for half in halves:
        some, _ = look(Drawn(R, drawn.ability, half), LAW, limit=None)
        some.each(Crowd.fill, R)
        total += some.weigh(LAW).value
    assert total == pytest.approx(crowds.weigh(LAW).value)
    assert np.isfinite(whole.jacobian).all()
