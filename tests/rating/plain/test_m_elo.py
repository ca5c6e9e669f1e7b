"""m-ELO, and what it does where there is nothing to be found."""

from typing import Any

import numpy as np
import pytest
from scipy.linalg import LinAlgError

from app.rating.errors import NotConvergedError
from app.rating.plain import m_elo
from app.rating.plain.likelihood import Likelihood
from app.rating.plain.m_elo import fit_m_elo, maximise_scores
from app.rating.settings import LoopSettings
from app.rating.simulation.worlds import simulate_votes
from app.rating.verdict.round import run_round
from app.rating.votes.cells import Cells, aggregate, pool_annotators

MODELS, ANNOTATORS = 6, 25


@pytest.fixture
def cells() -> Cells:
    votes = simulate_votes(1, n_models=MODELS, roles={"honest": ANNOTATORS}, votes_each=40)
    return aggregate(votes.annotator, votes.model_a, votes.model_b, votes.outcome, **votes.sizes)


def test_it_solves_the_likelihood_equations(cells: Cells) -> None:
    """At the maximum every model's wins are what its scores expect."""
    R = fit_m_elo(cells).R
    excess = cells.s - cells.n / (1 + np.exp(R[cells.model_b] - R[cells.model_a]))
    balance = np.bincount(cells.model_a, excess, MODELS) - np.bincount(cells.model_b, excess, MODELS)
    np.testing.assert_allclose(balance, 0, atol=1e-8)
    assert R.mean() == pytest.approx(0.0, abs=1e-12)


def test_a_fit_out_of_iterations_is_no_result(cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(m_elo, "MOST_ITERATIONS", 2)
    with pytest.raises(NotConvergedError, match="not converged after 2 iterations"):
        fit_m_elo(cells)


def test_steps_that_never_decrease_are_no_result(cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(m_elo, "MOST_HALVINGS", 0)
    with pytest.raises(NotConvergedError, match="no step decreases the objective"):
        fit_m_elo(cells)


def test_a_step_that_overshoots_is_halved(cells: Cells) -> None:
    """So far from the maximum the curvature is next to nothing."""
    start = 6.0 * np.cos(np.pi * np.arange(MODELS))
    R, _, _ = maximise_scores(Likelihood(pool_annotators(cells)), np.ones(1), np.zeros(MODELS, dtype=np.int64), start)
    np.testing.assert_allclose(R, fit_m_elo(cells).R, atol=1e-9)


def test_a_singular_hessian_is_no_result(cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise LinAlgError

    monkeypatch.setattr(m_elo, "cho_factor", refuse)
    with pytest.raises(NotConvergedError, match="singular at iteration 1"):
        run_round(cells, LoopSettings(method="m-elo", min_votes=0))
