import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.rating.errors import NoCommonRankingError, VotesError
from app.rating.settings import LoopSettings
from app.rating.simulation.worlds import SimulatedVotes, draw_pairs, make_world, simulate_votes
from app.rating.uncertainty.results import Start
from app.rating.verdict.round import run_round
from app.rating.votes.cells import Cells, aggregate

MakeCells = Callable[[SimulatedVotes], Cells]
HONEST, FLIP = slice(0, 25), slice(25, 28)


@pytest.fixture(scope="module")
def cells(cells_of: MakeCells) -> Cells:
    """25 honest annotators, then 3 who vote against the ranking; 100 votes each."""
    return cells_of(simulate_votes(21, n_models=8, roles={"honest": 25, "flip": 3}))


def with_votes(counts: list[int]) -> Cells:
    """Annotators with the given numbers of votes, alternating a win and a loss of model 0 against model 1."""
    annotator = np.repeat(np.arange(len(counts)), counts)
    outcome = np.where(np.arange(len(annotator)) % 3 == 0, 0.0, 1.0)
    return aggregate(
        annotator, np.zeros(len(annotator), int), np.ones(len(annotator), int), outcome,
        n_annotators=len(counts), n_models=2,
    )  # fmt: skip


def test_more_than_delta_votes_are_needed() -> None:
    rating = run_round(with_votes([50, 51, 60]), LoopSettings(min_votes=50))
    assert rating.annotators.standing.tolist() == ["pending", "active", "active"]
    assert rating.votes_used == 111
    assert np.isnan(rating.annotators.ability[0])
    assert np.isfinite(rating.annotators.shadow_ability[0])


def test_no_annotator_past_delta_is_an_error_with_the_most_votes() -> None:
    with pytest.raises(
        VotesError, match="no annotator has more than 60 votes; the most that one of 2 annotators has is 60"
    ):
        run_round(with_votes([10, 60]), LoopSettings(min_votes=60))


def test_no_votes_at_all() -> None:
    with pytest.raises(VotesError, match="no vote is left"):
        run_round(with_votes([]), LoopSettings())


def test_those_at_or_below_epsilon_are_flagged_and_stay_in(cells: Cells) -> None:
    rating = run_round(cells, LoopSettings())
    assert (rating.annotators.standing[FLIP] == "flagged").all()
    assert (rating.annotators.standing[HONEST] == "active").all()
    assert rating.votes_used == 2800
    assert rating.diagnostics.excluded_share == pytest.approx(3 / 28)
    assert (rating.annotators.probability_low[FLIP] > 0.99).all()
    assert rating.annotators.ability[HONEST].min() > 0.2


def test_excluding_fits_again_without_them_and_keeps_a_shadow(cells: Cells) -> None:
    rating = run_round(cells, LoopSettings(exclude=True))
    alone = run_round(cells.where(cells.annotator < 25), LoopSettings())
    assert (rating.annotators.standing[FLIP] == "excluded").all()
    assert np.isnan(rating.annotators.ability[FLIP]).all()
    assert (rating.annotators.shadow_ability[FLIP] < 0).all()
    np.testing.assert_allclose(rating.models.score, alone.models.score, atol=0.01)
    assert rating.votes_used == 2500


def test_the_threshold_itself_counts_as_below(cells: Cells) -> None:
    ability = run_round(cells, LoopSettings(flag_rule="threshold")).annotators.ability
    lowest = int(np.argmin(ability[HONEST]))
    least = float(ability[lowest])
    at = run_round(cells, LoopSettings(flag_rule="threshold", min_ability=least))
    above = run_round(cells, LoopSettings(flag_rule="threshold", min_ability=float(np.nextafter(least, -np.inf))))
    assert at.annotators.standing[lowest] == "flagged"
    assert above.annotators.standing[lowest] == "active"
    assert above.annotators.ability[lowest] == least, "the flagged have no part in the unit"


def test_kept_always_and_never(cells: Cells) -> None:
    always, never = np.zeros(28, bool), np.zeros(28, bool)
    always[25], never[0] = True, True
    rating = run_round(cells, LoopSettings(exclude=True), keep_always=always, keep_never=never)
    # by the rule alone: annotator 0 would be active, 25 excluded
    assert rating.annotators.standing[[0, 25, 26]].tolist() == ["active", "excluded", "excluded"]
    assert np.isfinite(rating.annotators.ability[25])
    assert np.isnan(rating.annotators.ability[0])
    assert rating.annotators.shadow_ability[0] > 0.2


def test_two_camps_of_equal_size_have_no_common_ranking(cells_of: MakeCells) -> None:
    split = cells_of(simulate_votes(7, n_models=8, roles={"honest": 12, "flip": 12}))
    with pytest.raises(NoCommonRankingError, match="no common ranking"):
        run_round(split, LoopSettings(prior_sd=None))


def test_a_ring_that_floods_one_models_battles_is_found_and_gains_nothing() -> None:
    """Four annotators vote for one weak model in every battle they are in, and in nothing else."""
    generator = np.random.default_rng(7)
    world = make_world(generator, n_models=12, roles={"honest": 40, "clique": 4})
    annotator = np.repeat(np.arange(44), 100)
    a, b = draw_pairs(generator, 12, len(annotator))
    a = np.where((annotator >= 40) & (b != world.target), world.target, a)
    outcome = world.vote(annotator, a, b, generator)
    cells = aggregate(annotator, a, b, outcome, n_annotators=44, n_models=12)
    rating = run_round(cells, LoopSettings())
    clean = run_round(cells.where(cells.annotator < 40), LoopSettings())
    fooled = run_round(cells, LoopSettings(method="m-elo"))
    assert (rating.annotators.standing[40:] == "flagged").all()
    assert rating.models.rank[world.target] >= clean.models.rank[world.target]
    assert fooled.models.rank[world.target] < clean.models.rank[world.target] - 3


def test_excluding_everyone_is_an_error(cells: Cells) -> None:
    with pytest.raises(VotesError, match="every annotator is at or below"):
        run_round(cells, LoopSettings(min_ability=50.0, exclude=True))


def test_ability_1_is_the_mean_honest_one_of_all_in_the_papers_fit_and_components_mean_base(cells: Cells) -> None:
    plain = LoopSettings(prior_sd=None)
    assert run_round(cells, plain).annotators.ability.mean() == pytest.approx(1.0)
    rating = run_round(cells, LoopSettings(base=1500.0))
    assert rating.annotators.ability[HONEST].mean() == pytest.approx(1.0, abs=0.02)
    assert rating.models.score.mean() == pytest.approx(1500.0)
    assert (rating.diagnostics.median_ability, rating.diagnostics.published_cap) == (1.0, None)


def test_flagged_annotators_change_the_unit_no_more_than_excluded_ones(cells: Cells) -> None:
    flagged, excluded = (run_round(cells, LoopSettings(exclude=it)) for it in (False, True))
    apart = flagged.models.score - excluded.models.score
    assert np.all(np.abs(apart) < 0.25 * excluded.models.se)
    np.testing.assert_allclose(np.ptp(flagged.models.score), np.ptp(excluded.models.score), rtol=0.01)
    np.testing.assert_allclose(flagged.annotators.ability[HONEST], excluded.annotators.ability[HONEST], atol=0.05)


def test_an_ability_is_of_all_votes_those_on_a_buried_model_too(cells: Cells) -> None:
    """Votes that bury a model are hardly trusted with its score, and still tell of who gave them."""
    before = run_round(cells, LoopSettings())
    best, worst = int(np.argmax(before.models.score)), int(np.argmin(before.models.score))
    first, last = min(best, worst), max(best, worst)
    one = HONEST.stop - 1
    here = (cells.annotator == one) & (cells.model_a == first) & (cells.model_b == last)
    assert here.any()
    more = np.where(here, 60.0, 0.0)
    buried = replace(cells, n=cells.n + more, s=cells.s + more * (worst == first))
    after = run_round(buried, LoopSettings())
    assert after.annotators.standing[one] == "flagged"
    assert after.annotators.ability[one] < before.annotators.ability[one] - 1.0
    assert after.annotators.probability_low[one] > 0.9
    np.testing.assert_allclose(after.models.score[[best, worst]], before.models.score[[best, worst]], atol=20.0)


def test_m_elo_has_no_abilities_and_flags_no_annotator(cells: Cells) -> None:
    rating = run_round(cells, LoopSettings(method="m-elo"))
    assert np.isnan(rating.annotators.ability).all()
    assert set(rating.annotators.standing) == {"active"}
    assert rating.diagnostics.published_cap is None


def test_am_elo_undoes_what_the_flippers_do_to_m_elo(cells_of: MakeCells) -> None:
    votes = simulate_votes(31, n_models=10, roles={"honest": 26, "flip": 16}, votes_each=150)
    both = {m: run_round(cells_of(votes), LoopSettings(method=m)).models.score for m in ("am-elo", "m-elo")}  # type: ignore[arg-type]
    error = {m: np.abs(score - votes.world.score + votes.world.score.mean() - 1000).mean() for m, score in both.items()}
    assert error["am-elo"] < 0.5 * error["m-elo"]


@pytest.fixture(scope="module")
def crowd(cells_of: MakeCells) -> Cells:
    """Of 132: large enough for an earlier turn's results to be where a fit starts from."""
    return cells_of(simulate_votes(41, n_models=12, roles={"honest": 120, "flip": 12}, votes_each=60))


def test_a_warm_turn_publishes_what_a_cold_one_does(crowd: Cells) -> None:
    """The earlier turn knew neither the last votes nor the last annotators and model."""
    known = crowd.where((crowd.annotator < 122) & (crowd.model_a < 11) & (crowd.model_b < 11))
    before, cold = run_round(known, LoopSettings()).optimum, run_round(crowd, LoopSettings())
    warm = run_round(crowd, LoopSettings(), start=before)
    np.testing.assert_allclose(warm.models.score, cold.models.score, atol=1e-8)
    np.testing.assert_allclose(warm.annotators.ability, cold.annotators.ability, atol=1e-8)
    alone = LoopSettings(flag_rule="threshold")  # a group that is weighed moves the optimum
    again = run_round(crowd, alone, start=run_round(crowd, alone).optimum)
    assert again.diagnostics.iterations <= 2  # the second is the step that settles it


def garbled(good: Start) -> dict[str, Start]:
    score = good.score
    return {
        "without end": Start(np.where(np.arange(len(score)) < 2, np.inf, score)),
        "far apart": Start(1e3 * score),
        "beyond numbers": Start(1e305 * np.sign(score)),
        "turned": Start(-score),
        "random": Start(np.random.default_rng(0).normal(1000, 300, len(score))),
        "nothing": Start(np.full_like(score, np.nan)),
    }


@pytest.mark.parametrize("method", ["am-elo", "m-elo"])
@pytest.mark.parametrize("prior", [{}, {"prior_sd": None}])
def test_no_start_however_garbled_changes_what_is_published(crowd: Cells, method: Any, prior: dict[str, Any]) -> None:
    settings = LoopSettings(method=method, **prior)
    cold = run_round(crowd, settings)
    for name, start in garbled(cold.optimum).items():
        warm = run_round(crowd, settings, start=start)
        np.testing.assert_allclose(warm.models.score, cold.models.score, atol=1e-6, err_msg=name)
        np.testing.assert_allclose(warm.annotators.ability, cold.annotators.ability, atol=1e-8, err_msg=name)


def test_without_intervals_ranks_stand_for_their_spread(cells: Cells) -> None:
    board = run_round(cells, LoopSettings(interval="none")).models
    assert np.isnan(board.se).all()
    assert board.best_rank.tolist() == board.rank.tolist() == board.worst_rank.tolist()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (LoopSettings(min_votes=-1), "min_votes"),
        (LoopSettings(prior_sd=0.0), "prior_sd"),
        (LoopSettings(prior_sd=0.7), "prior_sd must be at most 0.6"),
        (LoopSettings(confidence=1.0), "confidence"),
        (LoopSettings(min_votes=math.nan), "min_votes"),  # type: ignore[arg-type]  # wrong on purpose
        (LoopSettings(prior_sd=math.inf), "prior_sd"),
        (LoopSettings(prior_sd="guess"), "prior_sd"),  # type: ignore[arg-type]  # wrong on purpose
        (LoopSettings(influence_limit=math.inf), "influence_limit"),
        (LoopSettings(method="elo"), "method 'elo' is unknown; known are am-elo, m-elo"),  # type: ignore[arg-type]  # on purpose
        (LoopSettings(interval="wide"), "interval 'wide' is unknown"),  # type: ignore[arg-type]  # on purpose
        (LoopSettings(flag_rule="mood"), "flag_rule 'mood' is unknown"),  # type: ignore[arg-type]  # on purpose
        (LoopSettings(base=math.nan), "base must be a finite number"),
        (LoopSettings(base=math.inf), "base must be a finite number"),
        (LoopSettings(min_ability=math.nan), "min_ability must be a finite number"),
        (LoopSettings(min_probability=0.49), "min_probability must be at least 0.5"),
        (LoopSettings(min_probability=1.0), "min_probability must be at most 0.999"),
        (LoopSettings(min_probability=math.nan), "min_probability must be a finite number"),
        (LoopSettings(release_margin=math.nan), "release_margin"),
        (LoopSettings(anchor=(8, 1000.0)), "anchor names model 8"),
        (LoopSettings(anchor=(-1, 1000.0)), "anchor names model -1"),
        (LoopSettings(anchor=(0, math.nan)), "anchor must have finite points"),
    ],
)
def test_settings_out_of_range_are_refused(cells: Cells, settings: LoopSettings, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run_round(cells, settings)


def test_annotators_of_low_ability_are_excluded_and_the_rest_is_fitted_again(cells_of: MakeCells) -> None:
    cells = cells_of(simulate_votes(1, n_models=6, roles={"honest": 20, "flip": 2}, votes_each=60))
    settings = LoopSettings(exclude=True, flag_rule="threshold")
    rating = run_round(cells, settings)
    rest = rating.annotators.standing == "active"
    assert np.flatnonzero(~rest).tolist() == [20, 21]
    alone = run_round(cells.where(rest[cells.annotator]), settings)
    np.testing.assert_allclose(rating.models.score, alone.models.score, atol=1e-6)
    assert rating.models.votes.sum() == alone.models.votes.sum() == 2 * 20 * 60
