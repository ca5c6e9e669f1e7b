"""Ability, readiness to tie and lean: against an optimiser, the truth of crowds, and crowds without habits."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from app.rating.detection.habits import ABILITY_SD, Habits, estimate_habits, find_taste_variance
from app.rating.fit.lean_spread import fit_spread
from app.rating.fit.own_terms import expand_own
from app.rating.votes.cells import Cells, aggregate
from app.rating.votes.sided_cells import SidedCells

MODELS = 12


class Crowd:
    """A crowd that votes by the model itself, and its votes."""

    def __init__(
        self, seed: int, *, people: int = 60, votes_each: int = 150, ties: float = 1.0, lean: float = 0.8,
        taste: float = 0.0, even: float = 0.94, few: float = 0.0,
    ) -> None:  # fmt: skip
        generator = np.random.default_rng(seed)
        self.score = 0.8 * generator.standard_normal(MODELS)
        self.ability = np.exp(0.3 * generator.standard_normal(people))
        self.tie_log = np.log(max(even, 1e-12)) + ties * generator.standard_normal(people)
        self.lean = lean * generator.standard_normal(people)
        self.lean[:3] += few
        seen = self.score + taste * generator.standard_normal((people, MODELS))
        self.annotator = np.repeat(np.arange(people), votes_each)
        self.left = generator.integers(0, MODELS, len(self.annotator))
        self.right = (self.left + generator.integers(1, MODELS, len(self.annotator))) % MODELS
        k = self.annotator
        y = 0.5 * (self.ability[k] * (seen[k, self.left] - seen[k, self.right]) + self.lean[k])
        up, tie = np.exp(y), np.exp(self.tie_log[k]) * (even > 0.0)
        draw = generator.random(len(k)) * (up + tie + 1.0 / up)
        self.outcome = np.where(draw < up, 1.0, np.where(draw < up + tie, 0.5, 0.0))

    def sided(self) -> SidedCells:
        return SidedCells.of_votes(
            self.annotator, self.left, self.right, self.outcome, n_annotators=len(self.ability), n_models=MODELS
        )

    def cells(self) -> Cells:
        return aggregate(
            self.annotator, self.left, self.right, self.outcome, n_annotators=len(self.ability), n_models=MODELS
        )


def test_derivatives_are_those_of_the_value() -> None:
    sided, rng = Crowd(1).sided(), np.random.default_rng(2)
    c, side, room = sided.cells, sided.side, np.empty((6, 90))
    d = rng.normal(0.0, 2.0, len(c.n))
    centre, precision, at = np.array([1.0, 0.1, -0.3]), np.array([1.0, 4.0, 0.5]), np.array([0.7, -0.4, 0.2])

    def value(x: np.ndarray) -> float:
        y, win, tie, loss = 0.5 * (x[0] * d + x[1] * side)[:90], c.wins_a[:90], c.ties[:90], c.wins_b[:90]
        log = win * y + tie * x[2] - loss * y - (win + tie + loss) * np.log(np.exp(y) + np.exp(x[2]) + np.exp(-y))
        return float(log.sum() - 0.5 * precision @ (x - centre) ** 2)

    g, H = np.empty(3), np.empty((3, 3))
    expand_own(0, 90, c.n, c.s, c.ties, d, side[:, None], at, centre, precision, room, g, H)
    h = 1e-4
    for i, step in enumerate(h * np.eye(3)):
        assert g[i] == pytest.approx((value(at + step) - value(at - step)) / (2 * h), rel=1e-6, abs=1e-6)
        for j, other in enumerate(h * np.eye(3)):
            mixed = value(at + step + other) - value(at + step - other) - value(at - step + other)
            assert -H[max(i, j), min(i, j)] == pytest.approx(
                (mixed + value(at - step - other)) / (4 * h * h), rel=1e-4, abs=1e-3
            )


def test_each_annotator_is_at_the_maximum() -> None:
    """A general-purpose optimiser finds the same, from the priors that the crowd gives."""
    crowd = Crowd(3, people=30)
    found, cells = estimate_habits(crowd.sided(), crowd.score), crowd.sided()
    for k in (0, 7, 29):
        mine = cells.where(cells.cells.annotator == k)
        c = mine.cells
        d = crowd.score[c.model_a] - crowd.score[c.model_b]

        def objective(x: np.ndarray, c: Cells = c, d: np.ndarray = d, side: np.ndarray = mine.side) -> float:
            y = 0.5 * (x[0] * d + x[2] * side)
            log = (c.wins_a - c.wins_b) * y + c.ties * x[1] - c.n * np.log(np.exp(y) + np.exp(x[1]) + np.exp(-y))
            away = (x[0] - found.typical) / (ABILITY_SD * found.typical), (x[1] - found.ties.mean) / found.ties.sd
            return float(
                -log.sum() + 0.5 * (sum(z * z for z in away) + ((x[2] - found.leans.mean) / found.leans.sd) ** 2)
            )

        best = minimize(objective, np.array([1.0, 0.0, 0.0]), tol=1e-10).x
        mine_found = found.ability[k] * found.typical, found.tie_log[k], found.lean[k]
        np.testing.assert_allclose(mine_found, best, atol=0.01)


def test_the_truth_is_found_within_its_errors() -> None:
    z: list[np.ndarray] = []
    for seed in range(4):
        crowd = Crowd(seed)
        found = estimate_habits(crowd.sided(), crowd.score)
        typical = float(np.median(crowd.ability))
        z.append((found.ability - crowd.ability / typical) / found.ability_se)
        z.append((found.tie_log - crowd.tie_log) / found.tie_se)
        z.append((found.lean - crowd.lean) / found.lean_se)
        assert found.ties.sd == pytest.approx(1.0, abs=0.3)
        assert found.leans.sd == pytest.approx(0.8, abs=0.2)
        assert found.taste_sd == 0.0
    assert np.mean(np.abs(np.concatenate(z)) < 1.96) == pytest.approx(0.95, abs=0.025)


def test_sides_swapped_turn_the_lean_alone() -> None:
    crowd = Crowd(5)
    found = estimate_habits(crowd.sided(), crowd.score)
    crowd.left, crowd.right, crowd.outcome = crowd.right, crowd.left, 1.0 - crowd.outcome
    other = estimate_habits(crowd.sided(), crowd.score)
    np.testing.assert_allclose(other.lean, -found.lean, atol=1e-5)
    np.testing.assert_allclose(other.ability, found.ability, atol=1e-5)
    np.testing.assert_allclose(other.tie_log, found.tie_log, atol=1e-5)


def same(one: Habits, other: Habits) -> None:
    for name in ("ability", "ability_se", "tie_log", "tie_se", "lean", "lean_se", "caution"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-6, atol=1e-6)


def test_a_row_of_weight_two_is_the_row_twice() -> None:
    crowd = Crowd(6, people=20)
    sided = crowd.sided()
    c = sided.cells
    double = replace(c, n=2.0 * c.n, s=2.0 * c.s, ties=2.0 * c.ties)
    for name in ("annotator", "left", "right", "outcome"):
        setattr(crowd, name, np.repeat(getattr(crowd, name), 2))
    same(estimate_habits(replace(sided, cells=double), crowd.score), estimate_habits(crowd.sided(), crowd.score))


def test_a_crowd_that_never_ties_and_has_no_sides() -> None:
    crowd = Crowd(7, even=0.0)
    found = estimate_habits(SidedCells.unknown(crowd.cells()), crowd.score)
    assert np.all(np.isneginf(found.tie_log))
    assert np.all(found.lean == 0.0)
    assert np.corrcoef(found.ability, crowd.ability)[0, 1] > 0.5
    assert np.isfinite(found.ability_se).all()


@pytest.mark.parametrize("outcome", [0.5, 1.0])
def test_votes_that_say_nothing(outcome: float) -> None:
    """All ties, and all left: every number stays finite."""
    crowd = Crowd(8, people=5, votes_each=30)
    crowd.outcome = np.full(len(crowd.outcome), outcome)
    found = estimate_habits(crowd.sided(), np.zeros(MODELS))
    np.testing.assert_allclose(found.ability, 1.0)
    assert np.isfinite([found.ability_se, found.lean, found.lean_se, found.caution]).all()


def test_an_annotator_without_votes_has_no_habits() -> None:
    crowd = Crowd(9, people=12)
    sided = crowd.sided()
    found = estimate_habits(sided.where(sided.cells.annotator != 4), crowd.score)
    for name in ("ability", "ability_se", "tie_log", "lean"):
        assert np.flatnonzero(np.isnan(getattr(found, name))).tolist() == [4]


def test_leans_are_used_only_where_they_are_worth_it() -> None:
    used = [bool(estimate_habits(Crowd(s, lean=0.0).sided(), Crowd(s).score).leans.sd) for s in range(20)]
    assert sum(used) <= 2
    assert all(estimate_habits(Crowd(s, lean=0.4).sided(), Crowd(s).score).leans.sd for s in range(4))


def test_a_few_who_always_choose_the_left_do_not_make_the_crowd_lean() -> None:
    crowd = Crowd(10, lean=0.0)
    crowd.outcome = np.where(crowd.annotator >= 56, 1.0, crowd.outcome)
    found = estimate_habits(crowd.sided(), crowd.score)
    assert found.leans.sd < 0.2


def test_tastes_make_an_ability_less_certain() -> None:
    with_tastes, without = (estimate_habits(Crowd(11, taste=t).sided(), Crowd(11).score) for t in (1.0, 0.0))
    assert with_tastes.taste_sd == pytest.approx(1.0, abs=0.3)
    assert (with_tastes.caution > 1.5).mean() > 0.9
    assert without.taste_sd == 0.0
    assert np.all(without.caution == 1.0)


def test_a_few_who_favour_a_model_are_no_tastes() -> None:
    crowd = Crowd(12)
    bought = crowd.annotator >= 54
    crowd.outcome = np.where(bought & (crowd.left == 3), 1.0, np.where(bought & (crowd.right == 3), 0.0, crowd.outcome))
    assert estimate_habits(crowd.sided(), crowd.score).taste_sd == 0.0


def test_no_votes_have_no_tastes() -> None:
    assert find_taste_variance(np.zeros(3), np.zeros(3), np.zeros(3)) == 0.0


@pytest.mark.parametrize("sd", [0.0, 0.3, 1.0])
def test_a_spread_is_found_through_outliers(sd: float) -> None:
    generator = np.random.default_rng(13)
    variance = generator.uniform(0.02, 0.2, 4_100)
    value = 0.4 + sd * generator.standard_normal(4_100) + np.sqrt(variance) * generator.standard_normal(4_100)
    value[generator.random(4_100) < 0.08] += 6.0
    found = fit_spread(value, variance)
    assert found.mean == pytest.approx(0.4, abs=0.1)
    assert found.sd == pytest.approx(sd, abs=0.05 + 0.15 * sd)
    assert found.gain > 100.0
    assert fit_spread(np.empty(0), np.empty(0)).sd == 0.0
