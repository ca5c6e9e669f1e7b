"""Worlds in which something cannot be estimated: each has a defined, finite result and says what it lacks."""

import math
import pickle

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, logit
from scipy.stats import norm

from app.rating.errors import NoFiniteScoreError, VotesError
from app.rating.plain.m_elo import fit_m_elo
from app.rating.settings import LoopSettings
from app.rating.simulation.worlds import simulate_votes
from app.rating.uncertainty.bounds import outside_bounds
from app.rating.verdict.rating import Rating, estimate
from app.rating.verdict.round import run_round
from app.rating.votes.cells import Cells, aggregate
from app.rating.votes.graph import find_components, find_identified

M_ELO = LoopSettings(method="m-elo", min_votes=0, interval="information")
NO_INTERVALS = LoopSettings(method="m-elo", min_votes=0, interval="none")
AM_ELO = LoopSettings(min_votes=0)
PLAIN = LoopSettings(prior_sd=None)


def world(*games: tuple[int, int, float, int], models: int, annotators: int = 1) -> Cells:
    """Games as (model_a, model_b, W, how often), every annotator casting all of them."""
    a, b, w, times = (np.array(column) for column in zip(*games, strict=True))
    tiled = (np.tile(np.repeat(column, times), annotators) for column in (a, b, w.astype(float)))
    annotator = np.repeat(np.arange(annotators), times.sum())
    return aggregate(annotator, *tiled, n_annotators=annotators, n_models=models)


def assert_finite(rating: Rating) -> None:
    known = rating.models.identified
    assert np.isfinite(rating.models.score[known]).all()
    assert np.isfinite(rating.models.se[known]).all()
    assert np.isnan(rating.models.score[~known]).all()
    assert math.isfinite(rating.diagnostics.log_likelihood)


def codes(rating: Rating) -> set[str]:
    return {notice.code for notice in rating.diagnostics.warnings}


def test_no_votes_are_no_estimate() -> None:
    with pytest.raises(VotesError, match="no votes to fit"):
        estimate(aggregate([], [], [], [], n_annotators=0, n_models=0), AM_ELO)


def chain(models: int) -> Cells:
    """Each model beat the next once, in an index space of 5,000 models."""
    first = np.arange(models - 1)
    return aggregate(0 * first, first, first + 1, np.ones(models - 1), n_annotators=1, n_models=5_000)


def test_more_models_than_a_square_matrix_should_have_are_refused() -> None:
    with pytest.raises(VotesError, match="at most 4,096 models can be rated at once; the votes compare 4,097"):
        estimate(chain(4_097), M_ELO)


def test_models_without_votes_do_not_count_towards_the_limit() -> None:
    assert not estimate(chain(3), M_ELO).identified.any()


def test_a_model_that_only_won_gets_a_one_sided_bound_and_no_score() -> None:
    """Model 2 beat both of an even pair 1,000 times: its bound is where it wins all of them with probability .05."""
    rating = run_round(
        world((0, 1, 1.0, 50), (0, 1, 0.0, 50), (2, 0, 1.0, 500), (2, 1, 1.0, 500), models=3), NO_INTERVALS
    )
    assert np.isnan(rating.models.score).tolist() == [False, False, True]
    assert rating.models.identified.tolist() == [True, True, False]
    bound = -math.log(math.expm1(-math.log(0.05) / 1000)) * 400 / math.log(10)
    assert rating.models.lower[2] == pytest.approx(1000 + bound, abs=1e-6)
    assert rating.models.upper[2] == math.inf
    assert rating.models.rank.tolist() == [2, 2, 1]
    assert (rating.models.ranked.tolist(), rating.models.best_rank.tolist()) == ([True, True, True], [2, 2, 1])
    assert rating.models.score[:2].mean() == pytest.approx(1000.0)
    assert "no-finite-score" in codes(rating)


def test_two_lucky_wins_and_two_losses_give_a_bound_and_a_place_that_may_be_any() -> None:
    even = [(a, b, w, 50) for a, b in ((0, 1), (0, 2), (1, 2)) for w in (1.0, 0.0)]
    games = world(*even, (3, 0, 1.0, 1), (3, 1, 1.0, 1), (4, 0, 0.0, 1), (4, 1, 0.0, 1), models=5)
    models = run_round(games, NO_INTERVALS).models
    exact = 400 * math.log10(0.05**0.5 / (1 - 0.05**0.5))
    assert exact == pytest.approx(-216.2, abs=0.1)
    assert models.lower[3] == pytest.approx(1000 + exact, abs=1e-6)
    assert models.upper[4] == pytest.approx(1000 - exact, abs=1e-6)
    found = run_round(games, M_ELO).models
    assert found.rank.tolist() == models.rank.tolist() == [2, 2, 2, 1, 5]
    for ranks in (found.best_rank, found.rank_set_best, found.class_rank):
        assert ranks.tolist() == [1] * 5
    for ranks in (found.worst_rank, found.rank_set_worst):
        assert ranks.tolist() == [5] * 5


def test_a_model_that_only_lost_mirrors_it_and_what_hangs_on_it_has_no_bound() -> None:
    games = world((0, 1, 1.0, 50), (0, 1, 0.0, 50), (2, 0, 0.0, 10), (2, 1, 0.0, 10), (3, 2, 0.0, 4), models=4)
    rating = run_round(games, M_ELO)
    assert rating.models.upper[2] < 1000
    assert rating.models.lower[2] == -math.inf
    assert (rating.models.lower[3], rating.models.upper[3]) == (-math.inf, math.inf)
    assert rating.models.identified.tolist() == [True, True, False, False]
    assert rating.models.rank.tolist() == [1, 1, 3, 4]
    assert rating.models.best_rank.tolist() == [1, 1, 3, 1], "four games lost to the third are not enough"
    assert rating.models.worst_rank.tolist() == [3, 3, 4, 4]


@pytest.mark.parametrize(
    "advantage",
    [
        pytest.param(-200.0, marks=pytest.mark.soak),
        pytest.param(0.0, marks=pytest.mark.soak),
        pytest.param(200.0, marks=pytest.mark.soak),
        pytest.param(400.0, marks=pytest.mark.campaign),
    ],
)
def test_a_bound_holds_the_truth_where_the_opponents_are_estimated_too(advantage: float) -> None:
    """A newcomer with two battles: how often its lower bound, where it has one, lies above its score."""
    generator, wrong, arenas = np.random.default_rng(int(advantage) + 500), 0, 60
    truth = np.append(np.linspace(-150, 150, 4), advantage)
    a, b = np.triu_indices(4, 1)
    for _ in range(arenas):
        model_a, model_b = np.append(np.repeat(a, 15), [4, 4]), np.append(np.repeat(b, 15), generator.integers(0, 4, 2))
        won = generator.random(len(model_a)) < 1 / (1 + 10 ** ((truth[model_b] - truth[model_a]) / 400))
        cells = aggregate(np.arange(len(won)) % 23, model_a, model_b, won.astype(float), n_annotators=23, n_models=5)
        models = run_round(cells, M_ELO).models
        if models.identified[:4].all() and not models.identified[4]:
            base = 1000 - truth[:4].mean()
            wrong += int(not models.lower[4] <= truth[4] + base <= models.upper[4])
    assert wrong <= 0.05 * arenas + 3 * math.sqrt(0.05 * 0.95 * arenas)


def test_the_opponents_error_widens_the_bound() -> None:
    games = world((0, 1, 1.0, 5), (0, 1, 0.0, 5), (2, 0, 1.0, 3), models=3)
    identified = np.array([True, True, False])
    known, _ = outside_bounds(games, identified, np.zeros(3), np.ones(1), 0.95)
    doubtful, _ = outside_bounds(games, identified, np.zeros(3), np.ones(1), 0.95, np.diag([0.25, 0.25, 0.0]))
    assert known[2] == pytest.approx(logit(0.05 ** (1 / 3)))
    chance = quad(lambda e: norm.pdf(e, scale=0.5) * expit(doubtful[2] - e) ** 3, -5, 5)[0]
    assert chance == pytest.approx(0.05, rel=1e-6)
    assert doubtful[2] < known[2]


def test_two_models_of_which_one_always_wins_have_no_scores_at_all() -> None:
    for settings in (M_ELO, AM_ELO):
        rating = run_round(world((0, 1, 1.0, 60), models=2), settings)
        assert not rating.models.identified.any()
        assert np.isnan(rating.models.score).all()
        assert rating.diagnostics.log_likelihood == 0.0
        for ranks in (rating.models.rank, rating.models.best_rank, rating.models.worst_rank):
            assert ranks.tolist() == [1, 2], "60 of 60"


def beats_all_below(order: list[int], times: int) -> Cells:
    """Each model won so often against every model after it in the order, and lost to it never."""
    games = [(order[i], order[j], 1.0, times) for i in range(len(order)) for j in range(i + 1, len(order))]
    return world(*((min(a, b), max(a, b), float(a < b), n) for a, b, _, n in games), models=len(order))


def test_models_that_never_lost_to_those_below_are_in_order_without_scores() -> None:
    order = [3, 0, 5, 1, 4, 2]
    for times, sure in ((20, True), (1, False)):
        models = run_round(beats_all_below(order, times), AM_ELO).models
        assert not models.identified.any()
        assert np.argsort(models.rank).tolist() == order
        ranges = [models.best_rank, models.worst_rank, models.rank_set_best, models.rank_set_worst, models.class_rank]
        expected = [models.rank] * 5 if sure else [np.ones(6), np.full(6, 6)] * 2 + [np.ones(6)]
        np.testing.assert_array_equal(ranges, expected)


def test_a_group_that_never_lost_to_the_rest_is_above_it_in_its_own_order() -> None:
    """Models 0 to 2 won 10 of 10 against each of 3 to 7; inside either group the lower number won 12 of 20."""
    close = [
        (i, j, w, n) for i in range(8) for j in range(i + 1, 8) for w, n in ((1.0, 12), (0.0, 8)) if (i < 3) == (j < 3)
    ]
    won = [(i, j, 1.0, 10) for i in range(3) for j in range(3, 8)]
    models = run_round(world(*close, *won, models=8), M_ELO).models
    assert models.identified.tolist() == [False] * 3 + [True] * 5
    assert models.rank.tolist() == list(range(1, 9))
    assert models.worst_rank[:3].tolist() == [3, 3, 3]
    assert models.best_rank[3:].min() == 4
    assert models.class_rank[:3].tolist() == [1, 1, 1]
    assert np.isfinite(models.lower[:3]).all()
    assert np.isposinf(models.upper[:3]).all()


def ladder(rungs: int, annotators: int = 1) -> Cells:
    """Models each of which beat the next 20 times and lost to it once; votes in turn by each annotator."""
    model = np.repeat(np.arange(rungs - 1), 21)
    outcome = np.tile(np.r_[np.ones(20), 0.0], rungs - 1)
    annotator = np.arange(len(model)) % annotators
    return aggregate(annotator, model, model + 1, outcome, n_annotators=annotators, n_models=rungs)


@pytest.mark.parametrize("rungs", [35, 150])
def test_scores_of_any_range_are_scores(rungs: int) -> None:
    """Every difference is that of 20 wins to 1, whatever the others are."""
    rating = run_round(ladder(rungs), M_ELO)
    assert rating.models.identified.all()
    np.testing.assert_allclose(np.diff(rating.models.score), -400 * math.log10(20), atol=1e-6)


@pytest.mark.parametrize("annotators", [1, 30])
def test_am_elo_goes_as_far_as_m_elo_does(annotators: int) -> None:
    rating = run_round(ladder(60, annotators), AM_ELO)
    assert rating.models.identified.all()
    assert_finite(rating)
    assert (np.diff(rating.models.score) < 0).all()


@pytest.mark.parametrize("theta", [2.0, 1.0, 0.1, 0.05, 0.02, 1e-6, -0.02])
def test_a_bound_by_a_poor_judge_is_as_far_out_as_the_ability_is_small(theta: float) -> None:
    """Five votes for model 2 by that judge alone, of 5·log σ(θR) = log .05."""
    cells = aggregate(
        np.array([1, 1, 1, 1, 1, 0, 0]), np.array([2, 2, 2, 2, 2, 0, 0]), np.array([0, 0, 0, 0, 0, 1, 1]),
        np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0]), n_annotators=2, n_models=3,
    )  # fmt: skip
    lower, upper = outside_bounds(cells, np.array([True, True, False]), np.zeros(3), np.array([1.0, theta]), 0.95)
    bound = -math.log(math.expm1(-math.log(0.05) / 5)) / theta
    known, other = (lower, upper) if theta > 0 else (upper, lower)
    assert known[2] == pytest.approx(bound, rel=1e-9)
    assert other[2] == math.copysign(math.inf, theta)


def test_a_judge_of_hardly_any_ability_bounds_nothing() -> None:
    cells = aggregate(np.array([0]), np.array([2]), np.array([0]), np.ones(1), n_annotators=1, n_models=3)
    lower, upper = outside_bounds(cells, np.array([True, True, False]), np.zeros(3), np.array([1e-13]), 0.95)
    assert (lower[2], upper[2]) == (-math.inf, math.inf)


def test_a_disconnected_graph_is_ranked_apart() -> None:
    games = world((0, 1, 1.0, 6), (0, 1, 0.0, 3), (2, 3, 1.0, 30), (2, 3, 0.0, 10), models=5)
    rating = run_round(games, M_ELO)
    assert rating.models.component.tolist() == [1, 1, 0, 0, -1]
    assert rating.models.rank.tolist() == [1, 2, 1, 2, 0]
    assert rating.models.score[:2].mean() == pytest.approx(1000)
    assert rating.models.score[2:4].mean() == pytest.approx(1000)
    assert rating.models.score[2] - rating.models.score[3] == pytest.approx(400 * math.log10(3))
    assert rating.models.votes.tolist() == [9, 9, 40, 40, 0]
    assert "disconnected-graph" in codes(rating)


@pytest.mark.parametrize("settings", [M_ELO, AM_ELO])
def test_everything_tied_is_a_board_of_equals(settings: LoopSettings) -> None:
    rating = run_round(world((0, 1, 0.5, 30), (1, 2, 0.5, 30), models=3, annotators=25), settings)
    assert_finite(rating)
    np.testing.assert_allclose(rating.models.score, 1000.0, atol=1e-6)
    assert rating.models.rank.tolist() == [1, 1, 1]


@pytest.mark.parametrize("settings", [M_ELO, AM_ELO])
def test_one_tie_is_the_smallest_world_with_scores(settings: LoopSettings) -> None:
    rating = run_round(world((0, 1, 0.5, 1), models=2), settings)
    assert_finite(rating)
    np.testing.assert_allclose(rating.models.score, 1000.0)


def test_one_annotator_is_the_typical_one() -> None:
    rating = run_round(
        world((0, 1, 1.0, 40), (0, 1, 0.0, 20), (1, 2, 1.0, 30), (1, 2, 0.0, 30), models=3),
        LoopSettings(min_votes=0),
    )
    assert_finite(rating)
    assert rating.annotators.ability[0] == pytest.approx(1.0, abs=0.1)
    assert "one-annotator" in codes(rating)
    m_elo = run_round(world((0, 1, 1.0, 40), (0, 1, 0.0, 20), (1, 2, 1.0, 30), (1, 2, 0.0, 30), models=3), M_ELO)
    np.testing.assert_allclose(rating.models.score, m_elo.models.score, atol=0.5 * m_elo.models.se.min())


def test_m_elo_by_itself_refuses_votes_whose_maximum_lies_at_infinity() -> None:
    """Model 0 only won; model 3 only lost, to a model that has a score."""
    cells = world((1, 2, 1.0, 3), (1, 2, 0.0, 2), (0, 1, 1.0, 4), (2, 3, 1.0, 1), models=4)
    with pytest.raises(NoFiniteScoreError, match="2 model") as caught:
        fit_m_elo(cells)
    assert caught.value.models.tolist() == [0, 3]
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301  what this test has written itself
    assert again.models.tolist() == [0, 3]
    assert str(again) == str(caught.value)


def test_an_annotator_who_is_always_right_is_finite_by_default() -> None:
    mixed = world((0, 1, 1.0, 20), (0, 1, 0.0, 10), (1, 2, 1.0, 20), (1, 2, 0.0, 10), models=3, annotators=40)
    always = world((0, 1, 1.0, 30), (1, 2, 1.0, 30), models=3)
    cells = Cells(
        np.append(mixed.annotator, always.annotator + 40).astype(np.int32),
        *(np.append(getattr(mixed, x), getattr(always, x)) for x in ("model_a", "model_b", "n", "s", "ties")),
        41,
        3,
    )
    rating = run_round(cells, AM_ELO)
    assert_finite(rating)
    assert np.isfinite(rating.annotators.se).all()


def test_an_ability_of_exactly_zero_is_an_estimate_like_any_other() -> None:
    """Annotators 0 to 2 agree; annotator 3 votes each way equally often, against a scoreless prior at 0 pull."""
    honest = world((0, 1, 1.0, 40), (0, 1, 0.0, 20), models=2, annotators=3)
    even = world((0, 1, 1.0, 400), (0, 1, 0.0, 400), models=2)
    cells = Cells(
        np.append(honest.annotator, even.annotator + 3).astype(np.int32),
        *(np.append(getattr(honest, x), getattr(even, x)) for x in ("model_a", "model_b", "n", "s", "ties")),
        4,
        2,
    )
    rating = run_round(cells, LoopSettings(min_votes=0, prior_sd=None))
    assert_finite(rating)
    assert rating.annotators.ability[3] == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_allclose(rating.annotators.ability[:3], rating.annotators.ability[0])


def test_a_win_from_a_negative_annotator_counts_as_a_loss_for_identification() -> None:
    """Model 2's only loss comes from annotator 1, who votes against the ranking: it only won, then."""
    cells = aggregate(
        np.array([0, 0, 1, 1]), np.array([0, 2, 0, 2]), np.array([1, 0, 1, 0]), np.array([0.5, 1.0, 0.5, 0.0]),
        n_annotators=2, n_models=3,
    )  # fmt: skip
    components = find_components(cells)
    assert find_identified(cells, components, np.array([1.0, 1.0])).tolist() == [True, True, True]
    assert find_identified(cells, components, np.array([1.0, -1.0])).tolist() == [True, True, False]
    assert find_identified(cells, components, np.array([1.0, 0.0])).tolist() == [True, True, False]


@pytest.mark.parametrize(("outcome", "side"), [(1.0, "lower"), (0.0, "upper")])
def test_a_newcomer_that_only_won_by_the_signs_of_the_abilities_has_a_bound(outcome: float, side: str) -> None:
    """By maximum likelihood: four honest annotators agree on a new model, one of negative ability says the opposite."""
    votes = simulate_votes(3, n_models=20, roles={"honest": 40, "random": 4, "flip": 2})
    flipper, newcomer = 44, 20
    voters = np.array([0, 1, 2, 3, flipper])
    others = np.argsort(votes.world.score)[8:13]
    said = np.where(voters == flipper, 1 - outcome, outcome)
    cells = aggregate(
        np.append(votes.annotator, voters),
        np.append(votes.model_a, np.full(5, newcomer)),
        np.append(votes.model_b, others),
        np.append(votes.outcome, said),
        n_annotators=46,
        n_models=21,
    )
    rating = run_round(cells, PLAIN)
    before = run_round(cells.where((cells.model_a != newcomer) & (cells.model_b != newcomer)), PLAIN)
    assert rating.models.identified.tolist() == [True] * 20 + [False]
    assert math.isfinite(getattr(rating.models, side)[newcomer])
    np.testing.assert_allclose(rating.models.score[:20], before.models.score[:20], atol=1e-6)


def test_components_are_numbered_by_their_votes() -> None:
    components = find_components(world((3, 4, 1.0, 2), (0, 1, 1.0, 1), (5, 6, 1.0, 2), models=8))
    assert components.number == 3
    assert components.label.tolist() == [2, 2, -1, 0, 0, 1, 1, -1]
