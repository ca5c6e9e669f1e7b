"""Profile-likelihood intervals, against a general optimiser and the sandwich."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.optimize import minimize
from scipy.special import log_expit
from scipy.stats import chi2

from app.policy.schemas import Policy
from app.rating.errors import NotConvergedError, VotesError
from app.rating.settings import LoopSettings, SettingError, check_settings
from app.rating.simulation.worlds import SimulatedVotes, simulate_votes
from app.rating.uncertainty import profile
from app.rating.units import NATURAL_PER_ELO
from app.rating.verdict.rating import Rating
from app.rating.verdict.round import run_round
from app.rating.votes.cells import Cells, aggregate
from tests.fixtures.errors import having, naming

M_ELO = LoopSettings(method="m-elo", min_votes=0, interval="profile")
PLAIN = LoopSettings(prior_sd=None, min_votes=0, flag_rule="threshold", interval="profile")


def cells_of(votes: SimulatedVotes) -> Cells:
    return aggregate(votes.annotator, votes.model_a, votes.model_b, votes.outcome, **votes.sizes)


def deviance(votes: SimulatedVotes, rating: Rating, model: int, points: float) -> float:
    """Return twice the fall of the likelihood where a model has this score, by a general optimiser vote by vote."""
    n_models, found = votes.sizes["n_models"], rating.annotators
    abilities = rating.has_abilities

    def minus_log_likelihood(z: np.ndarray) -> float:
        R, theta = z[:n_models], z[n_models:]
        x = (theta[votes.annotator] if abilities else 1.0) * (R[votes.model_a] - R[votes.model_b])
        return -float(np.sum(votes.outcome * log_expit(x) + (1 - votes.outcome) * log_expit(-x)))

    best = np.concatenate([
        NATURAL_PER_ELO * (rating.models.score - 1000), found.ability if abilities else np.zeros(0)
    ])  # fmt: skip
    counts = found.standing == "active"
    constraints: list[dict[str, Any]] = [
        {"type": "eq", "fun": lambda z: z[:n_models].sum()},
        {"type": "eq", "fun": lambda z: z[model] - NATURAL_PER_ELO * (points - 1000)},
    ]
    if abilities:
        constraints.append({"type": "eq", "fun": lambda z: z[n_models:][counts].mean() - 1})
    fit = minimize(
        minus_log_likelihood, best, method="SLSQP", constraints=constraints, options={"ftol": 1e-12, "maxiter": 500}
    )
    assert fit.success
    return 2 * (fit.fun - minus_log_likelihood(best))


@pytest.mark.parametrize("settings", [M_ELO, PLAIN], ids=["m-elo", "plain"])
def test_the_likelihood_falls_by_half_a_quantile_at_each_end(settings: LoopSettings) -> None:
    """Flagged annotators have abilities, and no part in their mean."""
    votes = simulate_votes(2, n_models=5, roles={"honest": 6, "flip": 1}, votes_each=40)
    rating = run_round(cells_of(votes), replace(settings, confidence=0.9))
    assert rating.diagnostics.interval == "profile"
    if settings is PLAIN:
        assert rating.annotators.standing.tolist() == ["active"] * 6 + ["flagged"]
    for model in range(5):
        for end in (rating.models.lower, rating.models.upper):
            assert deviance(votes, rating, model, end[model]) == pytest.approx(chi2.ppf(0.9, 1), rel=2e-3)


@pytest.mark.parametrize("settings", [M_ELO, PLAIN], ids=["m-elo", "plain"])
def test_they_agree_with_the_sandwich_where_the_model_is_true(settings: LoopSettings) -> None:
    """A tie varies less than the likelihood believes, so that with ties they are too wide."""
    ratios = {}
    for tie_share in (0.0, 0.6):
        cells = cells_of(simulate_votes(3, roles={"honest": 42}, votes_each=200, tie_share=tie_share))
        ours, sandwich = (run_round(cells, replace(settings, interval=kind)) for kind in ("profile", "sandwich"))
        np.testing.assert_array_equal(ours.models.score, sandwich.models.score)
        ratios[tie_share] = (ours.models.upper - ours.models.lower) / (sandwich.models.upper - sandwich.models.lower)
    assert np.median(ratios[0.0]) == pytest.approx(1.0, abs=0.03)
    assert np.all(np.abs(ratios[0.0] - 1.0) < 0.1)
    assert np.all(ratios[0.6] > 1.15)


def test_few_votes_have_uneven_intervals_that_an_anchor_shifts() -> None:
    """The best model may be better than it looks by more than it may be worse."""
    cells = cells_of(simulate_votes(1, n_models=5, roles={"honest": 8}, votes_each=15))
    rating, anchored = (run_round(cells, replace(M_ELO, anchor=anchor)) for anchor in (None, (2, 1200.0)))
    found, best = rating.models, int(np.argmax(rating.models.score))
    assert found.upper[best] - found.score[best] > 1.05 * (found.score[best] - found.lower[best])
    np.testing.assert_allclose(anchored.models.upper - anchored.models.score, found.upper - found.score)
    assert anchored.models.score[2] == pytest.approx(1200.0)


def test_what_has_no_profile_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for prior_sd in (0.5, "estimated"):
        with pytest.raises(SettingError, check=naming("interval")):
            check_settings(replace(PLAIN, prior_sd=prior_sd))
    with pytest.raises(ValidationError):
        Policy.model_validate({"interval": "profile"})
    votes = simulate_votes(1, n_models=4, roles={"honest": 8})
    apart = {name: np.concatenate([getattr(votes, name), getattr(votes, name) + 4]) for name in ("model_a", "model_b")}
    annotator, outcome = np.tile(votes.annotator, 2), np.tile(votes.outcome, 2)
    two = aggregate(annotator, **apart, outcome=outcome, n_models=8, n_annotators=8)
    with pytest.raises(VotesError, check=having(code="shape")):
        run_round(two, M_ELO)
    monkeypatch.setattr(profile, "MOST_MODELS", 3)
    with pytest.raises(VotesError, check=having(code="too-many")):
        run_round(cells_of(votes), M_ELO)


@pytest.mark.parametrize(("limit", "value"), [("MOST_STEPS", 1), ("MOST_REFITS", 1), ("CLOSE", -1.0)])
def test_an_end_that_is_not_found_is_no_end(monkeypatch: pytest.MonkeyPatch, limit: str, value: float) -> None:
    monkeypatch.setattr(profile, limit, value)
    with pytest.raises(NotConvergedError):
        run_round(cells_of(simulate_votes(1, n_models=4, roles={"honest": 8})), M_ELO)


def test_an_ability_that_may_grow_without_end_leaves_no_interval() -> None:
    """It carries the unit, while the other annotators' scores draw together, and the likelihood hardly falls."""
    cells = cells_of(simulate_votes(23, n_models=10, roles={"honest": 20}, votes_each=60, tie_share=0.0))
    with pytest.raises(NotConvergedError, match="has no end"):
        run_round(cells, replace(PLAIN, min_ability=-9.0))
    assert np.isfinite(run_round(cells, M_ELO).models.upper).all()


@pytest.mark.parametrize("weight", [1e-6, 1e-12, 1e-100])
def test_votes_of_nearly_no_weight_have_no_end(weight: float) -> None:
    """The likelihood falls by less than the quantile however far a score moves."""
    cells = cells_of(simulate_votes(1, n_models=4, roles={"honest": 8}))
    light = replace(cells, n=weight * cells.n, s=weight * cells.s, ties=weight * cells.ties)
    with pytest.raises(NotConvergedError, match="has no end"):
        run_round(light, M_ELO)
