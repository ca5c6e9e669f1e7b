"""Errors by prompt: beside a twin that loops over the votes, and what they change."""

from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from app.rating.model.expansion import CURVATURE, Expansion
from app.rating.model.start import PRECISION
from app.rating.settings import LoopSettings, Method
from app.rating.uncertainty.influence import find_influence
from app.rating.uncertainty.prompts import join_freedom, positive_part
from app.rating.uncertainty.results import Estimate
from app.rating.verdict.categories import pool_categories
from app.rating.verdict.fragility import find_fragility
from app.rating.verdict.rating import estimate
from app.rating.votes.cells import aggregate
from app.rating.votes.prompts import PromptCells
from stable_arena import AmElo

MODELS, ANNOTATORS = 5, 12
TRUTH = np.linspace(-0.8, 0.8, MODELS)
SIZES = {"n_annotators": ANNOTATORS, "n_models": MODELS}
Votes = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Prompt, annotator, model_a, model_b and W of each vote."""


def draw(prompts: int = 8, each: int = 40, seed: int = 3, effect: float = 0.8) -> Votes:
    generator = np.random.default_rng(seed)
    k = np.repeat(np.arange(ANNOTATORS), each)
    q, a = generator.integers(0, prompts, len(k)), generator.integers(0, MODELS, len(k))
    b = (a + generator.integers(1, MODELS, len(k))) % MODELS
    on = generator.normal(0, effect, (prompts, MODELS))
    p = expit(TRUTH[a] - TRUTH[b] + on[q, a] - on[q, b])
    return q, k, a, b, (generator.random(len(k)) < p).astype(float)


def rate(votes: Votes, method: Method = "am-elo", *, prompts: bool = True, **changes: Any) -> Estimate:
    q, k, a, b, W = votes
    known = PromptCells.of_votes(q, k, a, b, W, **SIZES) if prompts else None
    settings = LoopSettings(method=method, min_votes=0, **changes)
    return estimate(aggregate(k, a, b, W, **SIZES), settings, prompts=known)


def by_vote(votes: Votes, found: Estimate) -> np.ndarray:
    """What a unit of each vote's residual adds to the equations, times its residual, one vote after the other."""
    expansion = Expansion(found.small.cells, found.marginal, found.settings.influence_limit)
    moved, R, cells = expansion.moved(np.arange(ANNOTATORS)), found.fit.R, found.small.cells
    rows = []
    for _, k, a, b, W in zip(*votes, strict=True):
        here = (cells.annotator == k) & (cells.model_a == min(a, b)) & (cells.model_b == max(a, b))
        pull, d = float(expansion.weight[here][0]) * expansion.pull[k], R[a] - R[b]
        v = d * moved[k]
        v[a] += pull
        v[b] -= pull
        rows.append((W - expit(found.fit.theta[k] * d)) * v)
    return np.array(rows)


def test_the_part_by_prompt_is_that_of_a_loop_over_the_votes() -> None:
    votes = draw()
    found, alone = rate(votes), rate(votes, prompts=False)
    assert found.covariance is not None
    assert alone.covariance is not None
    assert found.marginal is not None
    expansion = Expansion(found.small.cells, found.marginal, found.settings.influence_limit)
    known = np.diag(found.marginal.equations.information) - PRECISION
    cells, q, k = found.small.cells, votes[0], votes[1]
    rows, meat = by_vote(votes, found), np.zeros((MODELS, MODELS))
    for prompt in range(8):
        groups = [(q == prompt, 1.0), *(((q == prompt) & (k == one), -1.0) for one in range(ANNOTATORS))]
        for of_group, sign in groups:
            share = np.zeros(MODELS)
            for one, a, b in zip(k[of_group], votes[2][of_group], votes[3][of_group], strict=True):
                here = (cells.annotator == one) & (cells.model_a == min(a, b)) & (cells.model_b == max(a, b))
                information = float(expansion.parts[here, CURVATURE][0] / cells.n[here][0])
                share[[a, b]] += information / known[[a, b]]
            u = rows[of_group].sum(axis=0) / np.sqrt(1.0 - share)
            meat += sign * np.outer(u, u)
    bread = np.linalg.inv(found.marginal.equations.jacobian)
    centre = np.diag(found.marginal.equations.information)
    shift = np.eye(MODELS) - centre / centre.sum()
    shown = np.sqrt(1.0 + 1.0 / alone.covariance.freedom)
    part = positive_part(shown[:, None] * (shift @ bread @ meat @ bread.T @ shift.T) * shown)
    assert np.trace(part) > 0.3 * np.trace(alone.covariance.scores)
    assert found.covariance.scores == pytest.approx(alone.covariance.scores + part, rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("changes", [{}, {"method": "m-elo"}, {"prior_sd": None, "influence_limit": None}])
def test_prompts_of_one_vote_each_change_no_bit(changes: Any) -> None:
    q, *rest = draw()
    alone, own = rate((q, *rest), prompts=False, **changes), rate((np.arange(len(q)), *rest), **changes)
    assert np.array_equal(alone.covariance.scores, own.covariance.scores)
    assert np.array_equal(alone.covariance.freedom, own.covariance.freedom)
    assert np.array_equal(alone.models.lower, own.models.lower)
    assert own.diagnostics.prompts == len(q)
    assert own.diagnostics.prompt_share == 0.0
    assert alone.diagnostics.prompts is None


def test_prompts_of_one_annotator_each_change_no_bit() -> None:
    _, k, *rest = draw()
    alone, own = rate((k, k, *rest), prompts=False), rate((k, k, *rest))
    assert np.array_equal(alone.covariance.scores, own.covariance.scores)


@pytest.mark.parametrize("changes", [{}, {"method": "m-elo"}, {"prior_sd": None, "influence_limit": None}])
def test_votes_without_a_prompt_are_as_if_each_had_its_own(changes: Any) -> None:
    q, *rest = draw()
    some = np.arange(len(q)) % 3 == 0
    without, own = np.where(some, -1, q), np.where(some, 1000 + np.arange(len(q)), q)
    assert rate((without, *rest), **changes).covariance.scores == pytest.approx(
        rate((own, *rest), **changes).covariance.scores, rel=1e-12
    )


@pytest.mark.parametrize("changes", [{}, {"method": "m-elo"}, {"prior_sd": None, "influence_limit": None}])
def test_intervals_are_wider_with_few_prompts_and_do_not_depend_on_their_numbers(changes: Any) -> None:
    q, *rest = draw()
    alone, found, named = (rate(one, **changes, prompts=known) for one, known in (
        ((q, *rest), False), ((q, *rest), True), ((7 * (100 - q), *rest), True)
    ))  # fmt: skip
    assert np.all(found.models.se > alone.models.se)
    assert found.models.se.mean() > 1.2 * alone.models.se.mean()
    assert np.array_equal(found.models.score, alone.models.score)
    assert named.covariance.scores == pytest.approx(found.covariance.scores, rel=1e-9)
    assert found.diagnostics.prompts == 8
    assert 0.3 < found.diagnostics.prompt_share < 1.0


def test_a_weight_of_two_is_a_row_twice() -> None:
    votes = draw(each=20)
    doubled = tuple(np.concatenate([column, column]) for column in votes)
    q, k, a, b, W = votes
    weight = np.full(len(q), 2.0)
    cells = aggregate(k, a, b, W, **SIZES, weight=weight)
    once = estimate(
        cells, LoopSettings(min_votes=0), prompts=PromptCells.of_votes(q, k, a, b, W, **SIZES, weight=weight)
    )
    assert rate(doubled).covariance.scores == pytest.approx(once.covariance.scores, rel=1e-9)


@pytest.mark.parametrize("method", ["am-elo", "m-elo"])
def test_a_single_annotator_has_errors_by_prompt(method: Method) -> None:
    q, k, *rest = draw(each=60)
    alone, found = (rate((q, 0 * k, *rest), method, prompts=known) for known in (False, True))
    assert found.covariance.kind == "sandwich"
    assert found.models.se.mean() > 1.3 * alone.models.se.mean()
    assert np.all(np.isinf(alone.covariance.freedom))
    assert found.covariance.freedom.max() < 30


@pytest.mark.parametrize("interval", ["sandwich", "information"])
def test_prompts_do_not_matter_where_the_same_votes_would_be_cast_again(interval: str) -> None:
    votes = draw()
    alone, found = (rate(votes, interval=interval, prompts=known) for known in (False, True))
    assert np.array_equal(alone.covariance.scores, found.covariance.scores)


def test_a_notice_says_that_more_prompts_help_more_than_more_votes() -> None:
    def codes(votes: Votes) -> list[str]:
        return [notice.code for notice in rate(votes).diagnostics.warnings]

    assert "few-prompts" in codes(draw(prompts=6, each=200, effect=1.5))
    assert "few-prompts" not in codes(draw(prompts=60, each=40, effect=0.0))


def test_freedom_lies_between_those_of_both_parts_and_never_makes_an_interval_narrower() -> None:
    own, freedom = np.array([1.0, 1.0, 1.0, 1.0]), np.array([50.0, 1.5, 20.0, np.inf])
    joined = join_freedom(own, freedom, np.array([0.0, 0.1, 3.0, 0.9]), np.array([25.0, 900.0, 25.0, 25.0]))
    assert joined == pytest.approx([50.0, 1.5, 1 / (0.5 / 20 + 0.5 / 24), 24 * 1.9 / 0.9])


@pytest.mark.parametrize("method", ["am-elo", "m-elo"])
def test_the_influence_of_a_prompt_is_about_what_a_fit_without_it_changes(method: Method) -> None:
    votes = draw(prompts=20, each=120)
    found = rate(votes, method, interval="none")
    influence = find_influence(found)
    contrast = np.array([1.0, -1.0, 0.0, 0.0, 0.0])
    y = influence.solve(contrast)
    groups = influence.prompt_groups()
    assert groups is not None
    moved = influence.moved(y, influence.shares(y[:, None])[:, 0])
    falls = np.bincount(groups.prompt, groups.residual * moved[groups.cell])
    without = [rate(tuple(x[votes[0] != q] for x in votes), method, interval="none").fit.R for q in range(20)]
    changes = found.fit.R @ contrast - np.array(without) @ contrast
    assert np.corrcoef(falls, changes)[0, 1] > 0.99
    assert falls == pytest.approx(changes, abs=0.15 * np.abs(changes).max())


def test_fragility_counts_the_prompts_without_which_neighbours_swap() -> None:
    votes = draw(prompts=40, each=150, effect=1.0)
    found = rate(votes, "m-elo", interval="none")
    fragility = find_fragility(found)
    assert fragility.best.prompts.max() > 0
    pair = int(np.argmax(fragility.swap.prompts))
    i, j = fragility.upper[pair], fragility.lower[pair]
    influence, contrast = find_influence(found), np.zeros(MODELS)
    contrast[[i, j]] = 1.0, -1.0
    groups, y = influence.prompt_groups(), influence.solve(contrast)
    assert groups is not None
    moved = influence.moved(y, influence.shares(y[:, None])[:, 0])
    order = np.argsort(-np.bincount(groups.prompt, groups.residual * moved[groups.cell]))
    fewest = int(fragility.swap.prompts[pair])
    assert fewest > 2

    def gap(dropped: np.ndarray) -> float:
        kept = ~np.isin(votes[0], dropped)
        return float(rate(tuple(x[kept] for x in votes), "m-elo", interval="none").fit.R @ contrast)

    assert gap(order[: fewest - 2]) > 0.0
    assert gap(order[: fewest + 1]) < 0.0
    unknown = find_fragility(rate(votes, "m-elo", prompts=False, interval="none"))
    assert unknown.swap.prompts.tolist() == [-1] * 4
    assert unknown.swap.dropped.tolist() == fragility.swap.dropped.tolist()


@pytest.mark.filterwarnings("ignore::app.rating.errors.RatingWarning")
def test_categories_and_style_control_are_wider_too() -> None:
    q, k, a, b, W = draw(prompts=10, each=120)
    table = {"annotator": k, "model_a": a, "model_b": b, "winner": W}
    alone, found = (AmElo(min_votes=0, features=["side"]).fit(one) for one in (table, {**table, "prompt": q}))
    assert found.result_.models.se.mean() > 1.3 * alone.result_.models.se.mean()
    parts = [found.votes_.rows(q % 2 == place).aggregate() for place in range(2)]
    boards = [pool_categories(one.plain_, parts).rating(0).models for one in (alone, found)]
    assert boards[1].se.mean() > 1.3 * boards[0].se.mean()
