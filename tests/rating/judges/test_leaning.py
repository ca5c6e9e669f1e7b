"""The judges' own leaderboard: scores with every judge's lean."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from app.rating.errors import VotesError
from app.rating.judges.ballots import Ballots
from app.rating.judges.board import JudgesBoard, rate_judges
from app.rating.judges.leaning import fit_leaning, identified_leans
from app.rating.plain.m_elo import fit_m_elo
from app.rating.uncertainty.covariance import Covariance, contrast_errors
from app.rating.uncertainty.freedom import critical_values
from app.rating.votes.cells import Cells
from app.rating.votes.indexed import IndexedVotes
from tests.fixtures.judged_votes import Judged, Voter, judge_votes

ALIKE = np.zeros(6, dtype=np.int64)


@pytest.fixture(scope="module")
def judged() -> Judged:
    return judge_votes(3, [Voter("a", 300, lean=1.5, ties=0.2), Voter("b", 200, lean=-0.3)], n_models=6)


def of_some(judged: Judged, leaning: list[float]) -> Cells:
    """Take the side from the annotators that have 0 here."""
    cells = judged.ballots.featured()
    assert cells.features is not None
    return replace(cells, features=cells.features * np.array(leaning)[cells.annotator][:, None])


def swapped(ballots: Ballots, who: np.ndarray) -> Ballots:
    """Exchange the sides of some votes."""
    v = ballots.votes
    left, right = np.where(who, v.model_b, v.model_a), np.where(who, v.model_a, v.model_b)
    outcome = np.where(who, 1.0 - v.outcome, v.outcome)
    return Ballots(IndexedVotes(v.annotators, v.models, v.annotator, left, right, outcome), ballots.battle)


def test_the_scores_and_leans_are_those_of_a_joint_search(judged: Judged) -> None:
    v = judged.ballots.votes
    fit = fit_leaning(judged.ballots.featured(), ALIKE, np.zeros(6))

    def objective(x: np.ndarray) -> float:
        d = x[v.model_a] - x[v.model_b] + x[6 + v.annotator]
        return float(np.sum(np.logaddexp(0.0, d) - v.outcome * d) + (x[6:] ** 2).sum() / 18.0)

    naive = minimize(objective, np.zeros(8), method="BFGS", tol=1e-9).x
    assert pytest.approx(naive[:6] - naive[:6].mean(), abs=1e-4) == fit.R
    assert fit.leans[:, 0] == pytest.approx(naive[6:], abs=1e-4)


def test_without_leans_it_is_m_elo(judged: Judged) -> None:
    plain = fit_m_elo(judged.ballots.cells())
    fit = fit_leaning(of_some(judged, [0.0, 0.0]), ALIKE, np.zeros(6))
    assert pytest.approx(plain.R, abs=1e-9) == fit.R


def test_exchanged_sides_change_the_sign_of_the_lean_alone(judged: Judged) -> None:
    first = rate_judges(judged.ballots)
    other = rate_judges(swapped(judged.ballots, judged.ballots.votes.annotator == 0))
    assert other.lean == pytest.approx(first.lean * [[-1.0], [1.0]], abs=1e-6)
    assert other.rating.models.score == pytest.approx(first.rating.models.score, abs=1e-5)
    assert other.rating.models.lower == pytest.approx(first.rating.models.lower, abs=1e-4)


def test_a_judge_who_saw_the_baseline_always_on_one_side_has_no_lean() -> None:
    generator = np.random.default_rng(1)
    other, outcome = generator.integers(1, 6, 400), generator.integers(0, 2, 400).astype(float)
    votes = IndexedVotes(
        ["a"], [f"m{i}" for i in range(6)], np.zeros(400, np.int32), np.zeros(400, np.int32), other.astype(np.int32),
        outcome,
    )  # fmt: skip
    ballots = Ballots.of(votes, None)
    assert not identified_leans(ballots.featured()).any()
    board = rate_judges(ballots)
    assert np.isnan(board.lean).all()
    assert board.rating.models.score == pytest.approx(1000 + 400 / np.log(10) * fit_m_elo(ballots.cells()).R)


def test_copies_of_a_battle_with_the_sides_exchanged_are_no_new_votes() -> None:
    """A judge who answers every copy as the original knows no more; nor does the leaderboard."""
    once = judge_votes(5, [Voter("a", 400), Voter("b", 400)], n_models=6, shared=0.5).ballots
    copies = swapped(once, np.ones(800, bool))
    v, w = once.votes, copies.votes
    both = IndexedVotes(
        v.annotators, v.models,
        *(np.concatenate(pair) for pair in zip(
            (v.annotator, v.model_a, v.model_b, v.outcome), (w.annotator, w.model_a, w.model_b, w.outcome), strict=True
        )),
    )  # fmt: skip
    one = rate_judges(Ballots(v, once.battle))
    two = rate_judges(Ballots(both, np.concatenate([once.battle, once.battle])))
    assert two.rating.models.se == pytest.approx(one.rating.models.se, rel=0.03)
    assert two.lean[:, 0] == pytest.approx([0.0, 0.0], abs=1e-9), "every answer was given on both sides"


def test_battles_on_a_prompt_err_together(judged: Judged) -> None:
    """Every battle twice, as another one with the same verdicts: on one prompt they tell no more than one."""
    one = judged.ballots.of_annotators(np.array([True, False]))
    twice, prompt = one.votes.rows(np.tile(np.arange(len(one.battle)), 2)), np.tile(one.battle, 2)
    double = np.append(one.battle, one.battle + one.battle.max() + 1)

    def errors(votes: IndexedVotes, battle: np.ndarray) -> Covariance:
        found = rate_judges(Ballots(votes, battle)).rating.covariance
        assert found is not None
        return found

    once, by_prompt = errors(one.votes, one.battle), errors(replace(twice, prompt=prompt), double)
    assert errors(twice, double).scores == pytest.approx(once.scores / 2.0, rel=0.02, abs=1e-3)
    assert by_prompt.scores == pytest.approx(once.scores, rel=0.05, abs=1e-3)
    assert by_prompt.prompt_share == pytest.approx(0.5, abs=0.03)
    known = errors(replace(one.votes, prompt=one.battle), one.battle)
    assert np.array_equal(known.scores, once.scores), "a prompt has one battle"
    assert known.by_prompt is None


@pytest.mark.campaign
@pytest.mark.parametrize(("prompts", "effect"), [(25, 0.6), (50, 0.6), (50, 0.0)])
def test_the_intervals_hold_where_models_differ_by_prompt(prompts: int, effect: float) -> None:
    truth = np.mean([_rate(seed, 8000, effect).rating.fit.R for seed in range(1000, 1003)], axis=0)
    i, j = np.triu_indices(6, 1)
    hits = []
    for seed in range(60):
        rating = _rate(seed, prompts, effect).rating
        spread = rating.covariance
        assert spread is not None
        se = contrast_errors(spread.scores, i, j)
        reach = critical_values(spread.contrast_freedom(i, j), 0.95) * se
        hits.append(np.abs((rating.fit.R - truth)[i] - (rating.fit.R - truth)[j]) < reach)
    assert 0.91 < np.mean(hits) < 0.99, np.mean(hits)


def _rate(seed: int, prompts: int, effect: float) -> JudgesBoard:
    """Rate six models by three judges, who saw the same 20 battles on each prompt; `effect` is a model's on one."""
    generator, number = np.random.default_rng(seed), 20 * prompts
    left = generator.integers(0, 6, number)
    right = (left + generator.integers(1, 6, number)) % 6
    prompt = np.repeat(np.arange(prompts), 20)
    better = effect * generator.standard_normal((prompts, 6)) + 0.3 * np.arange(6)
    p = expit(better[prompt, left] - better[prompt, right] + 0.3)
    columns = (np.tile(one, 3) for one in (left.astype(np.int32), right.astype(np.int32)))
    said = (generator.random((3, number)) < p).ravel().astype(float)
    who = np.repeat(np.arange(3), number).astype(np.int32)
    votes = IndexedVotes(list("abc"), list("uvwxyz"), who, *columns, said, prompt=np.tile(prompt, 3))
    return rate_judges(Ballots.of(votes, np.tile(np.arange(number), 3)))


def test_no_votes_are_refused(judged: Judged) -> None:
    with pytest.raises(VotesError):
        rate_judges(judged.ballots.of_annotators(np.zeros(2, bool)))


def test_votes_that_give_no_model_a_score_are_refused() -> None:
    """One judge's first ranking, whose models only won or only lost, must not end a refit."""
    a, b = np.array([[0, 0, 1], [1, 2, 2]], np.int32)
    votes = IndexedVotes(["a"], ["m0", "m1", "m2"], np.zeros(3, np.int32), a, b, np.ones(3))
    with pytest.raises(VotesError, match="no model a score"):
        rate_judges(Ballots.of(votes, None))


@pytest.mark.campaign
@pytest.mark.parametrize(("taste", "shared"), [(0.0, None), (0.3, None), (0.3, 0.0)])
def test_the_intervals_cover_the_scores_of_the_mean_judge(taste: float, shared: float | None) -> None:
    inside = []
    for seed in range(60):
        voters = [Voter(f"j{k}", 1500, lean=lean, taste=taste) for k, lean in enumerate((1.8, 0.3, -0.2, 0.0))]
        judged = judge_votes(seed, voters, shared=shared)
        models = rate_judges(judged.ballots).rating.models
        truth = 1000.0 + 400.0 / np.log(10.0) * judged.score
        inside.append(np.mean((models.lower < truth) & (truth < models.upper)))
    assert 0.93 <= np.mean(inside) <= 0.97, np.mean(inside)


@pytest.mark.campaign
def test_the_order_of_few_judges_is_at_least_that_of_a_plain_fit() -> None:
    """Four annotators, one of them people, who saw the same 26,919 battles of 20 close models, as a public set has."""
    gains = []
    for seed in range(40):
        voters = [
            Voter("p", 26_919, ties=0.3), Voter("left", 26_919, ability=0.35, lean=1.8, taste=0.18),
            Voter("good", 26_919, ability=0.9, lean=0.2, taste=0.12, ties=0.1),
            Voter("fair", 26_919, ability=0.7, lean=-0.1, taste=0.12, ties=0.1),
        ]  # fmt: skip
        judged = judge_votes(seed, voters, spread=0.55, shared=1.0)
        judges = judged.ballots.of_annotators(~judged.people)
        peoples = fit_m_elo(judged.ballots.of_annotators(judged.people).cells()).R
        plain = fit_m_elo(judges.cells()).R
        gains.append(in_order(rate_judges(judges).rating.models.score, peoples) - in_order(plain, peoples))
    error = np.std(gains) / np.sqrt(len(gains))
    assert np.mean(gains) > -2.0 * error, (np.mean(gains), error)


def in_order(one: np.ndarray, other: np.ndarray) -> float:
    """Return the share of pairs in the same order."""
    i, j = np.triu_indices(len(one), 1)
    return float(np.mean(np.sign(one[i] - one[j]) == np.sign(other[i] - other[j])))
