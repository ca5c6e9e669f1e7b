"""Opinions of their own: the integral against a plain sum, and what they change for honest annotators and coins."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

from app.rating.detection import opinions as opinions_module
from app.rating.detection.evidence import Evidence, weigh
from app.rating.detection.habits import estimate_habits
from app.rating.detection.null_model import COIN
from app.rating.detection.opinions import SDS, climb, explain_by_opinions, solve_step
from app.rating.settings import LoopSettings
from app.rating.units import ELO_PER_NATURAL
from app.rating.verdict.round import run_round
from app.rating.votes.cells import aggregate
from app.rating.votes.sided_cells import SidedCells
from stable_arena_lab.defences.habits import MODELS, Crowd, draw

TASTES, FAMILIES = "tastes, sd 200", "tastes in families, sd 200"


def sided(seed: int, crowd: Crowd) -> tuple[SidedCells, np.ndarray, np.ndarray]:
    """Votes, the scores that the fit gives them, and who is bad."""
    annotator, left, right, outcome, bad = draw(seed, crowd)
    size = {"n_annotators": crowd.annotators, "n_models": MODELS}
    settings = LoopSettings(min_votes=0, interval="none", flag_rule="threshold")
    rating = run_round(aggregate(annotator, left, right, outcome, **size), settings)
    return SidedCells.of_votes(annotator, left, right, outcome, **size), rating.natural_scores(), bad


def judged(seed: int, crowd: Crowd) -> tuple[Evidence, np.ndarray]:
    votes, R, bad = sided(seed, crowd)
    return weigh(votes, R, tests=("coin",)), bad


@pytest.mark.parametrize(("ability", "sd"), [(0.4, 0.35), (1.3, 0.7), (-0.5, 0.7)])
def test_the_integral_is_the_plain_sum(ability: float, sd: float) -> None:
    """Three models, so that the sum runs over a grid of three opinions."""
    a, b = np.array([0, 0, 1, 0]), np.array([1, 2, 2, 2])
    win, tie, loss = np.array([5.0, 2.0, 4.0, 1.0]), np.array([1.0, 2.0, 1.0, 0.0]), np.array([3.0, 5.0, 0.0, 1.0])
    d, lean, v = np.array([0.5, 1.1, 0.6, 1.1]), np.array([0.1, 0.1, 0.1, -0.1]), 0.2
    u = np.zeros(3)
    strict = 1e12  # holds the tie propensity, so that the grid needs no fourth dimension
    value, tie_log = climb(a, b, d, win, tie, loss, lean, ability, sd, v, v, strict, u, np.empty((5, 3)))
    grid = np.linspace(-6.0, 6.0, 61)
    opinion = sd * np.stack(np.meshgrid(grid, grid, grid), axis=-1).reshape(-1, 3)
    y = 0.5 * (ability * (d + opinion[:, a] - opinion[:, b]) + lean)
    log = ((win - loss) * y + tie * v - (win + tie + loss) * np.log(np.exp(y) + np.exp(-y) + np.exp(v))).sum(axis=1)
    prior = -0.5 * (opinion**2).sum(axis=1) / sd**2
    assert tie_log == pytest.approx(v)
    assert value == pytest.approx(logsumexp(log + prior) - logsumexp(prior), abs=0.2)

    def objective(x: np.ndarray) -> float:
        z = 0.5 * (ability * d + lean + x[a] - x[b])
        total = (win - loss) * z + tie * v - (win + tie + loss) * np.log(np.exp(z) + np.exp(-z) + np.exp(v))
        return float(0.5 * (x**2).sum() / (ability * sd) ** 2 - total.sum())

    np.testing.assert_allclose(u, minimize(objective, np.zeros(3), tol=1e-12).x, atol=0.03)


def test_a_step_solves_its_equations() -> None:
    generator = np.random.default_rng(4)
    a, b = np.triu_indices(7, 1)
    curvature, g = generator.random(len(a)), generator.normal(size=7)
    edges = np.eye(7)[a] - np.eye(7)[b]
    H = 0.3 * np.eye(7) + edges.T @ (curvature[:, None] * edges)
    step = np.empty(7)
    solve_step(a, b, curvature, 0.3, np.diag(H).copy(), g.copy(), step, np.empty(7), np.empty(7))
    np.testing.assert_allclose(step, np.linalg.solve(H, g), atol=0.02)
    solve_step(a, b, curvature, 0.3, np.diag(H).copy(), np.zeros(7), step, np.empty(7), np.empty(7))
    assert not step.any()


def test_without_tastes_nothing_is_explained() -> None:
    votes, R, _ = sided(0, Crowd("alike"))
    habits = estimate_habits(votes, R)
    assert explain_by_opinions(votes.cells, R, np.zeros(len(votes.side)), habits, np.arange(42)) is None


def test_the_spread_of_tastes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores are in points of the typical annotator, whose tastes make 200 points of the truth about 120."""
    found = []
    find = opinions_module._find_shares

    def keep(*arguments: object) -> np.ndarray:
        found.append(find(*arguments))  # type: ignore[arg-type]  # as it was called
        return found[-1]

    monkeypatch.setattr(opinions_module, "_find_shares", keep)
    for seed in range(4):
        judged(seed, Crowd(TASTES, votes_each=200))
    mean = np.mean(found, axis=0)
    assert mean.sum() == pytest.approx(1.0)
    assert mean[0] < 0.1
    assert np.sqrt(mean @ SDS**2) * ELO_PER_NATURAL == pytest.approx(130.0, abs=25.0)


def test_in_large_crowds_those_of_low_ability_are_weighed_and_a_selection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opinions_module, "ENOUGH", 10)
    votes, R, _ = sided(1, Crowd(TASTES, bad="coin"))
    habits, lean = estimate_habits(votes, R), np.zeros(len(votes.side))
    found = explain_by_opinions(votes.cells, R, lean, habits, np.arange(1, 42))
    assert found is not None
    weighed = np.isfinite(found[0, :, 0])
    assert weighed[1:][habits.ability[1:] < opinions_module.OPPOSED].all()
    assert not weighed[0]
    assert 9 <= weighed.sum() < 25
    assert found[0, weighed].max() < 0.0
    assert np.isnan(found[:, ~weighed]).all()
    assert found[1, weighed][:, COIN].max() < -1e200, "opinions change no vote of a coin"


@pytest.mark.parametrize(
    ("world", "score_sd", "votes", "most", "coins"),
    [
        pytest.param(TASTES, 140.0, 51, 0.015, 0.29, marks=pytest.mark.campaign),
        pytest.param(FAMILIES, 140.0, 51, 0.03, 0.3, marks=pytest.mark.campaign),
        pytest.param(TASTES, 140.0, 200, 0.01, 0.8, marks=pytest.mark.soak),
        pytest.param(TASTES, 70.0, 51, 0.035, 0.0, marks=pytest.mark.campaign),
        pytest.param(FAMILIES, 70.0, 200, 0.05, 0.25, marks=pytest.mark.soak),
    ],
)
def test_tastes_are_hardly_ever_inability(world: str, score_sd: float, votes: int, most: float, coins: float) -> None:
    """Without opinions .03, .05, .04, .20 and .16 of the honest annotators had a low ability."""
    wronged, found = [], []
    for seed in range(16):
        for bad in ("", "coin"):
            evidence, is_bad = judged(seed, Crowd(world, bad=bad, votes_each=votes, score_sd=score_sd))
            low = evidence.flagged(("coin",))
            (found if bad else wronged).append(float(low[is_bad if bad else ~is_bad].mean()))
    assert np.mean(wronged) <= most
    assert np.mean(found) >= coins
