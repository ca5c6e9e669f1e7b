"""Annotators who contradict each other: every fit has a result or a specific error, none is just not converged."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from app.rating.fit.am_elo import Maximum, find_maximum
from app.rating.fit.result import FitResult
from app.rating.fit.solution import Solution, fit_models
from app.rating.fit.strategy import fit_groups_apart

from app.rating.errors import NoCommonRankingError, NoFiniteMaximumError, NotConvergedError, SaddlePointError
from app.rating.fit import solution as solver
from app.rating.fit import strategy
from app.rating.fit.likelihood import Likelihood
from app.rating.settings import LoopSettings
from app.rating.simulation.worlds import Role, simulate_votes
from app.rating.verdict.rating import Rating
from app.rating.verdict.round import run_round
from app.rating.votes.cells import Cells, aggregate
from app.rating.votes.compact import Compact, compact

ALL = LoopSettings(min_votes=0, prior_sd=1.0)


def codes(rating: Rating) -> set[str]:
    return {notice.code for notice in rating.diagnostics.warnings}


def opposed(models: int = 2, annotators: int = 2, first: int = 0) -> Cells:
    """Two annotators who say the opposite of each other about models 0 and 1."""
    annotator, outcome = np.repeat([first, first + 1], 10), np.repeat([1.0, 0.0], 10)
    zero, one = np.zeros(20, dtype=int), np.ones(20, dtype=int)
    return aggregate(annotator, zero, one, outcome, n_annotators=annotators, n_models=models)


def joined(one: Cells, other: Cells) -> Cells:
    columns = (
        np.concatenate([getattr(one, x), getattr(other, x)])
        for x in ("annotator", "model_a", "model_b", "n", "s", "ties")
    )
    return Cells(*columns, one.n_annotators, one.n_models)


def crowd(models: int, annotators: int) -> Cells:
    """Honest votes on models 2 and up, by annotators 2 and up."""
    votes = simulate_votes(8, n_models=models - 2, roles={"honest": annotators - 2}, votes_each=51)
    return aggregate(
        votes.annotator + 2, votes.model_a + 2, votes.model_b + 2, votes.outcome,
        n_annotators=annotators, n_models=models,
    )  # fmt: skip


def test_two_opposed_annotators_count_alike_and_the_models_are_equals() -> None:
    """Believing either is as good as believing the other: the maximum between is a saddle."""
    rating = run_round(opposed(), ALL)
    np.testing.assert_allclose(rating.models.score, 1000.0)
    assert rating.annotators.ability.tolist() == [1.0, 1.0]
    assert np.isfinite(rating.models.se).all()
    assert {"undecided-abilities", "two-models"} <= codes(rating)


@pytest.mark.parametrize("prior_sd", [1.0, "estimated"])
def test_they_do_not_disturb_a_crowd_that_no_vote_links_to_them(prior_sd: float) -> None:
    whole, settings = crowd(8, 30), LoopSettings(min_votes=0, prior_sd=prior_sd)
    both = run_round(joined(opposed(8, 30), whole), settings)
    np.testing.assert_allclose(both.models.score[:2], 1000.0)
    assert {"undecided-abilities", "disconnected-graph"} <= codes(both)
    alone = run_round(whole, ALL)
    np.testing.assert_allclose(np.diff(both.models.score[2:]), np.diff(alone.models.score[2:]), rtol=0.02)
    assert ("prior-spread-assumed" in codes(both)) == (prior_sd == "estimated")


def like_minded(annotators: int, *more: tuple[int, int, int, float]) -> Cells:
    """A crowd of equals on models 0 to 3, who prefer the lower number two times in three, and further votes, 9 each."""
    pairs = [(a, b) for a in range(4) for b in range(a + 1, 4)]
    rows = [(k, a, b, w) for k in range(annotators) for a, b in pairs for w in (1.0,) * 8 + (0.0,) * 4]
    return aggregate(*zip(*rows, *more * 9, strict=True), n_annotators=annotators, n_models=5)


def test_a_newcomer_whose_two_judges_contradict_each_other_does_not_stop_a_crowd() -> None:
    """Each judge may be the better one, and the newcomer above or below: one is as likely as the other."""
    alone = run_round(like_minded(24), ALL)
    both = run_round(like_minded(24, (0, 4, 0, 1.0), (3, 4, 1, 0.0)), ALL)
    np.testing.assert_allclose(both.models.score[:4], alone.models.score[:4], atol=1e-6)
    assert both.models.identified.tolist() == [True] * 4 + [False]
    assert "no-finite-score" in codes(both)


def stranded(monkeypatch: pytest.MonkeyPatch, fits: int) -> None:
    """Let the first so many fits end where all scores are equal."""
    left = [None] * fits

    def fit(cells: Cells, *rest: object, **named: object) -> Maximum:
        if not left:
            return find_maximum(cells, *rest, **named)  # type: ignore[arg-type]  # handed on as they come
        left.pop()
        none = np.zeros(cells.n_annotators, dtype=bool)
        point = Likelihood(cells, 1.0).expand(np.zeros(cells.n_models), np.ones(cells.n_annotators))
        return Maximum(FitResult(np.zeros(cells.n_models), np.ones(cells.n_annotators), none, 0.0, 0, none), point)

    monkeypatch.setattr("app.rating.fit.solution.find_maximum", fit)


@pytest.mark.parametrize("prior_sd", [1.0, "estimated"])
def test_a_crowd_leaves_a_saddle_point_for_the_higher_end(monkeypatch: pytest.MonkeyPatch, prior_sd: float) -> None:
    settings = LoopSettings(min_votes=0, prior_sd=prior_sd)
    there = run_round(crowd(8, 30), settings).models
    stranded(monkeypatch, 1)
    np.testing.assert_allclose(run_round(crowd(8, 30), settings).models.score, there.score, atol=1e-6)


def test_one_way_down_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    there = run_round(crowd(8, 30), ALL).models
    stranded(monkeypatch, 2)
    np.testing.assert_allclose(run_round(crowd(8, 30), ALL).models.score, there.score, atol=1e-6)


def test_two_ends_that_are_as_good_decide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    there, publish, fits = run_round(crowd(8, 30), ALL).models, solver.publish, list[FitResult]()

    def published(fit: FitResult, *rest: Any) -> Solution:
        fits.append(fit)
        if len(fits) == 1:
            raise SaddlePointError(fit.R, fit.theta, np.linspace(-1, 1, len(fit.R)))
        if len(fits) == 3:
            fit = replace(fit, R=fit.R[::-1])
        if len(fits) < 4:
            return Solution(replace(fit, prior_sd=1.0))
        return publish(fit, *rest)

    for module in (solver, strategy):
        monkeypatch.setattr(module, "publish", published)
    np.testing.assert_allclose(run_round(crowd(8, 30), ALL).models.score, there.score, atol=1e-6)
    assert len(fits) == 5  # the first, both ends, and the one group by itself and as the whole


def test_what_no_way_down_decides_has_no_score_and_the_rest_has(monkeypatch: pytest.MonkeyPatch) -> None:
    stranded(monkeypatch, 6)  # both ways, together and apart
    assert 2 <= run_round(crowd(8, 30), ALL).models.identified.sum() < 6


def test_a_saddle_point_of_one_group_alone_narrows_the_prior(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fit of all groups failed in another way, so no direction says which of their models to bar."""
    fit, failed = strategy.fit_models, list[float | None]()

    def fail_at_first(small: Compact, component: np.ndarray, settings: LoopSettings, *rest: Any) -> Solution:
        if settings.prior_sd == 0.5:
            return fit(small, component, settings, *rest)
        failed.append(settings.prior_sd)
        raise NotConvergedError("on purpose", np.zeros(len(small.models)), np.ones(len(small.annotators)))

    def meet_a_saddle(*_args: object) -> None:
        raise SaddlePointError(np.zeros(2), np.ones(20), np.ones(2))

    monkeypatch.setattr(strategy, "fit_models", fail_at_first)
    monkeypatch.setattr(strategy, "fit_groups_apart", meet_a_saddle)
    assert "prior-narrowed" in codes(run_round(crowd(8, 30), ALL))
    assert failed == [1.0]


def test_maximum_likelihood_that_does_not_converge_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(small: Compact, *_rest: object) -> None:
        raise NotConvergedError("on purpose", np.zeros(len(small.models)), np.ones(len(small.annotators)))

    monkeypatch.setattr("app.rating.fit.strategy.fit_models", fail)
    with pytest.raises(NotConvergedError, match="on purpose"):
        run_round(crowd(8, 30), LoopSettings(min_votes=0, prior_sd=None, ability_cap=None, interval="none"))


def test_maximum_likelihood_says_that_it_has_no_answer() -> None:
    with pytest.raises(NoFiniteMaximumError):
        run_round(opposed(), LoopSettings(min_votes=0, prior_sd=None, ability_cap=None, interval="none"))


def test_a_large_group_without_a_maximum_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then something is wrong with the solver, and abilities of 1 would hide it."""

    def fail(*_args: object, **_named: object) -> None:
        raise NotConvergedError("by order", np.zeros(6), np.ones(28))

    monkeypatch.setattr("app.rating.fit.solution.find_maximum", fail)
    with pytest.raises(NotConvergedError, match="by order"):
        run_round(crowd(8, 30), ALL)


def test_groups_apart_are_the_same_fit_as_together() -> None:
    """The likelihood is a product over groups that no vote links, and so is its maximum."""
    left = simulate_votes(1, n_models=4, roles={"honest": 12})
    right = simulate_votes(2, n_models=4, roles={"honest": 12})
    columns = [np.concatenate([getattr(left, x), getattr(right, x) + by]) for x, by in
               (("annotator", 12), ("model_a", 4), ("model_b", 4))]  # fmt: skip
    outcome = np.concatenate([left.outcome, right.outcome])
    cells = aggregate(*columns, outcome, n_annotators=24, n_models=8)
    component = np.repeat([0, 1], 4)
    together = fit_models(compact(cells), component, ALL).fit
    apart = fit_groups_apart(cells, component, ALL).fit
    np.testing.assert_allclose(apart.R, together.R, atol=1e-8)
    np.testing.assert_allclose(apart.theta, together.theta, atol=1e-8)
    assert apart.log_likelihood == pytest.approx(together.log_likelihood)
    assert not apart.undecided.any()


def test_a_crowd_that_follows_no_ranking_says_so() -> None:
    votes = simulate_votes(1, n_models=6, roles={"honest": 2, "flip": 2}, votes_each=300, ability_sd=0.0)
    cells = aggregate(votes.annotator, votes.model_a, votes.model_b, votes.outcome, **votes.sizes)
    with pytest.raises(NoCommonRankingError, match="no common ranking"):
        run_round(cells, ALL)


def tiny_world(seed: int) -> Cells:
    """A few annotators of every kind, with few votes."""
    generator = np.random.default_rng(seed)
    roles: dict[Role, int] = {"honest": int(generator.integers(2, 10))}
    if generator.random() < 0.5:
        roles |= {role: 1 for role in ("random", "flip", "equal", "clique") if generator.random() < 0.5}  # type: ignore[misc]  # all four are roles
    votes = simulate_votes(
        seed,
        n_models=int(generator.integers(2, 21)),
        roles=roles,
        votes_each=int(generator.integers(1, 31)),
        score_sd=float(generator.choice([0, 50, 140, 400])),
        tie_share=float(generator.choice([0, 0.35])),
    )
    return aggregate(votes.annotator, votes.model_a, votes.model_b, votes.outcome, **votes.sizes)


def sweep(seeds: range) -> dict[str, int]:
    """Tiny worlds, and how they end."""
    ends: dict[str, int] = {}
    for seed in seeds:
        try:
            rating = run_round(tiny_world(seed), ALL)
        except NoCommonRankingError:
            ends["no common ranking"] = ends.get("no common ranking", 0) + 1
            continue
        known = rating.models.identified
        assert np.isfinite(rating.models.score[known]).all()
        assert np.isfinite(rating.models.se[known]).all()
        assert np.isnan(rating.models.score[~known]).all()
        assert not np.isinf(rating.annotators.ability).any()
        end = "undecided" if "undecided-abilities" in codes(rating) else "decided"
        ends[end] = ends.get(end, 0) + 1
    return ends


@pytest.mark.campaign
def test_every_tiny_world_ends_well() -> None:
    ends = sweep(range(15))
    assert ends["decided"] > 12


@pytest.mark.soak
def test_thousands_of_tiny_worlds_end_well() -> None:
    ends = sweep(range(40, 3300))
    print(ends)
    assert ends["decided"] > 0.93 * 3260


@pytest.mark.parametrize(("seed", "votes"), [(5513, 30), (6061, 30), (6065, 30)])
def test_worlds_that_once_did_not_converge(seed: int, votes: int) -> None:
    world = simulate_votes(seed, n_models=17, roles={"honest": 2}, votes_each=votes, score_sd=50)
    cells = aggregate(world.annotator, world.model_a, world.model_b, world.outcome, **world.sizes)
    rating = run_round(cells, ALL)
    assert np.isfinite(rating.models.score[rating.models.identified]).all()


@pytest.mark.parametrize(
    ("seed", "limit"), [pytest.param(22, 1.25, marks=pytest.mark.campaign), (44, 1.25), (101, None)]
)
def test_where_half_of_the_models_would_run_off_the_prior_narrows_and_they_have_scores(
    seed: int, limit: float | None
) -> None:
    settings = replace(ALL, influence_limit=limit)
    rating, known = run_round(tiny_world(seed), settings), run_round(tiny_world(seed), replace(ALL, method="m-elo"))
    assert "prior-narrowed" in codes(rating)
    assert rating.models.identified.tolist() == known.models.identified.tolist()
    assert rating.models.identified.sum() >= 4


def test_where_one_model_after_another_would_run_off_the_prior_narrows(monkeypatch: pytest.MonkeyPatch) -> None:
    few = run_round(tiny_world(1), ALL)
    monkeypatch.setattr(strategy, "IDENTIFICATION_ROUNDS", 0)
    more = run_round(tiny_world(1), ALL)
    assert "prior-narrowed" not in codes(few)
    assert "prior-narrowed" in codes(more)
    assert more.models.identified.sum() == few.models.identified.sum() + 2
