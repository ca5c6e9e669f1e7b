from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from app.rating.arrays import Floats
from app.rating.model import scores
from app.rating.model.covariance import find_covariance
from app.rating.model.crowd import Crowd, Directions
from app.rating.model.crowds import Crowds
from app.rating.model.law import Found, Law
from app.rating.model.scores import Equations, MarginalFit, Search, combine, fit_scores
from app.rating.model.start import balance, fit_bradley_terry
from app.rating.votes.cells import Cells, aggregate
from tests.rating.model.crowds import draw


def centred(fit: MarginalFit) -> Floats:
    return fit.R - find_covariance(fit).centre @ fit.R


def expected_cells(R: Floats, annotators: int, votes: float) -> Cells:
    """Each annotator's votes on every pair, exactly as an ability of 1 makes them."""
    i, j = np.triu_indices(len(R), 1)
    k = np.repeat(np.arange(annotators, dtype=np.int32), len(i))
    a, b = (np.tile(x, annotators).astype(np.int32) for x in (i, j))
    n = np.full(len(k), votes)
    return Cells(k, a, b, n, n * expit(R[a] - R[b]), np.zeros(len(k)), annotators, len(R))


def test_votes_as_expected_give_the_scores_they_came_from() -> None:
    R = np.array([0.9, 0.4, 0.0, -0.5, -0.8])
    fit = fit_scores(expected_cells(R, 30, 200.0))
    np.testing.assert_allclose(fit.R - fit.R.mean(), R, rtol=0.015, atol=1e-3)  # abilities are assumed to differ
    np.testing.assert_allclose(fit.ability, 1.0, atol=0.015)
    assert fit.law.spread < 0.2


def test_the_search_begins_about_in_the_unit() -> None:
    """To Bradley and Terry's scores coins are like all others, so they are too close together."""
    cells = draw(400, 60, coins=60).cells
    ranking, found = fit_bradley_terry(balance(cells)), fit_scores(cells)
    with Crowds(cells, 1.25, 1.0 / found.dispersion, ranking) as crowds:
        begun, law = Search(crowds, found.label, found.dispersion).stretch(ranking, Law.assumed())
    of_ranking, of_search = (float(R @ found.R / (found.R @ found.R)) for R in (ranking, begun))
    assert of_ranking < 0.9
    assert abs(of_search - 1.0) < 0.04
    assert law.shares[1] > 0.08


def test_types_and_abilities_are_those_of_the_annotators() -> None:
    drawn = draw(60, 200, coins=6, contrary=4, spread=0.2)
    fit = fit_scores(drawn.cells)
    np.testing.assert_array_equal(fit.types.argmax(axis=1), np.repeat([1, 2, 0], [6, 4, 50]))
    error = (fit.ability - drawn.ability) / np.maximum(fit.ability_sd, 0.02)
    assert np.sqrt(np.mean(error[6:] ** 2)) < 1.5


def test_a_follower_says_nothing_of_the_scores() -> None:
    drawn = draw(40, 100)
    i, j = np.triu_indices(8, 1)
    k = np.full(12 * len(i), 40)
    with_one = aggregate(
        np.r_[drawn.cells.annotator, k], np.r_[drawn.cells.model_a, np.tile(i, 12)],
        np.r_[drawn.cells.model_b, np.tile(j, 12)], np.r_[(drawn.cells.s > drawn.cells.n / 2) * 1.0, np.zeros(len(k))],
        n_annotators=41, n_models=8,
    )  # fmt: skip
    without = with_one.where(with_one.annotator < 40)
    fit = fit_scores(with_one, influence_limit=None)
    assert fit.types[40, 3] > 0.9
    np.testing.assert_allclose(
        centred(fit), centred(fit_scores(without, influence_limit=None)), rtol=0.03, atol=0.01
    )  # it tells of the crowd


@given(seed=st.integers(0, 10_000))
def test_neither_names_nor_repetition_matter(seed: int) -> None:
    drawn = draw(12, 15, models=5, seed=seed)
    fit, cells = fit_scores(drawn.cells), drawn.cells
    generator = np.random.default_rng(seed)
    model, person = generator.permutation(5), generator.permutation(12)
    rows = np.repeat(np.arange(len(cells.n)), cells.n.astype(int))
    outcome = np.concatenate([
        np.repeat([1.0, 0.5, 0.0], [int(w), int(t), int(n - w - t)])
        for w, t, n in zip(cells.wins_a, cells.ties, cells.n, strict=True)
    ])  # fmt: skip
    named = aggregate(
        person[cells.annotator[rows]], model[cells.model_b[rows]], model[cells.model_a[rows]], 1.0 - outcome,
        n_annotators=12, n_models=5,
    )  # fmt: skip
    again = fit_scores(named)
    np.testing.assert_allclose(again.R[model], fit.R, atol=1e-5)
    np.testing.assert_allclose(again.ability[person], fit.ability, atol=1e-5)


def test_a_newcomer_moves_neither_scores_nor_widths() -> None:
    drawn = draw(40, 100)
    more = aggregate(
        np.r_[drawn.cells.annotator, 0], np.r_[drawn.cells.model_a, 0], np.r_[drawn.cells.model_b, 8],
        np.r_[(drawn.cells.s > drawn.cells.n / 2) * 1.0, 0.5], n_annotators=40, n_models=9,
    )  # fmt: skip
    before, after = (fit_scores(more.where(more.model_b < last)) for last in (8, 9))
    before = fit_scores(replace(more.where(more.model_b < 8), n_models=8))
    old, new = find_covariance(before), find_covariance(after)
    np.testing.assert_allclose(centred(after)[:8], centred(before), atol=0.02)
    np.testing.assert_allclose(np.diag(new.scores)[:8], np.diag(old.scores), rtol=0.05)
    assert new.scores[8, 8] > 10.0 * new.scores[0, 0]


def test_models_that_only_won_or_lost_have_finite_scores_in_their_order() -> None:
    i, j = np.triu_indices(6, 1)
    cells = aggregate(
        np.repeat(np.arange(20), len(i)), np.tile(i, 20), np.tile(j, 20), np.ones(20 * len(i)),
        n_annotators=20, n_models=6,
    )  # fmt: skip
    assert (np.diff(fit_scores(cells).R) < 0.0).all()


def test_parts_that_no_vote_links_are_each_centred() -> None:
    one, other = draw(30, 40, seed=1).cells, draw(30, 40, seed=2).cells
    both = Cells(
        *(np.concatenate([getattr(one, name), getattr(other, name) + shift]).astype(getattr(one, name).dtype)
          for name, shift in (("annotator", 30), ("model_a", 8), ("model_b", 8), ("n", 0), ("s", 0), ("ties", 0))),
        60, 16,
    )  # fmt: skip
    fit = fit_scores(both)
    found = find_covariance(fit)
    assert fit.label.tolist() == [fit.label[0]] * 8 + [1 - fit.label[0]] * 8
    assert np.abs(found.scores[:8, 8:]).max() < 1e-3 * found.scores[0, 0]
    for part in (slice(8), slice(8, 16)):
        assert found.centre[part].sum() == pytest.approx(1.0)


def test_few_judges_with_hardly_a_model_in_common_are_solved_from_the_plain_likelihood() -> None:
    """Six judges with thousands of votes, on two stars: a Newton step from the balanced scores leads far away."""
    generator = np.random.default_rng(0)
    k, model = generator.integers(0, 6, 30_000), generator.integers(2, 40, 30_000)
    baseline = (k % 2).astype(int)
    R = np.r_[0.5, -2.0, generator.normal(0.0, 1.2, 38)]
    ability = np.array([1.0, 1.4, 1.0, 0.9, 1.0, 0.9])
    outcome = (generator.random(30_000) < expit(ability[k] * (R[model] - R[baseline]))) * 1.0
    fit = fit_scores(aggregate(k, model, baseline, outcome, n_annotators=6, n_models=40))
    assert np.corrcoef(fit.R, R)[0, 1] > 0.98


def test_one_annotator_and_a_crowd_of_coins_have_scores() -> None:
    alone = fit_scores(draw(1, 200, spread=0.0).cells)
    assert np.isfinite(find_covariance(alone).scores).all()
    assert alone.ability[0] == pytest.approx(1.0, abs=0.3)
    coins = fit_scores(draw(30, 50, coins=30).cells)
    assert np.isfinite(coins.R).all()


def test_a_steep_contrary_annotator_among_many_honest_ones_is_fitted() -> None:
    """The nodes of one whose ability is far below those of the law once ran backwards."""
    generator = np.random.default_rng(0)
    R, k = np.linspace(-1.0, 1.0, 10), np.repeat(np.arange(201), [*[150] * 200, 2000])
    a = generator.integers(0, 10, len(k))
    b = (a + generator.integers(1, 10, len(k))) % 10
    ability = np.r_[np.ones(200), -2.5]
    outcome = (generator.random(len(k)) < expit(ability[k] * (R[a] - R[b]))) * 1.0
    fit = fit_scores(aggregate(k, a, b, outcome, n_annotators=201, n_models=10))
    assert fit.types[200].argmax() == 2
    assert fit.ability[200] < -1.0


def test_shares_in_the_information_add_up_to_one_for_each_model() -> None:
    """Four equal annotators have a quarter each: Σ h² is ¼."""
    fit = fit_scores(expected_cells(np.array([0.5, 0.1, -0.6]), 4, 50.0))
    np.testing.assert_allclose(fit.clusters.shares, 0.25, atol=1e-6)
    np.testing.assert_array_equal(fit.clusters.judges, 4.0)


def test_parts_that_share_annotators_have_the_jacobian_of_both() -> None:
    one, other = draw(20, 60, models=5, seed=1).cells, draw(20, 60, models=5, seed=2).cells
    order = np.argsort(np.r_[one.annotator, other.annotator], kind="stable")
    both = Cells(
        *(np.concatenate([getattr(one, name), getattr(other, name) + shift]).astype(getattr(one, name).dtype)[order]
          for name, shift in (("annotator", 0), ("model_a", 5), ("model_b", 5), ("n", 0), ("s", 0), ("ties", 0))),
        20, 10,
    )  # fmt: skip
    fit = fit_scores(both)
    crowds = Crowds(both, 1.25, 1.0 / fit.dispersion, fit.R)
    crowds.each(Crowd.look, fit.R, fit.law.spread)

    def equations(R: Floats) -> Equations:
        crowds.each(Crowd.fill, R)
        law, directions = Found(fit.law, crowds.weigh(fit.law), np.zeros((4, 4))), Directions.of(R, fit.label)
        sums = crowds.total(Crowd.contribute, directions, fit.law)
        return combine(sums, R, directions, law, fit.dispersion)

    moved = 1e-5 * (np.arange(10) == 2)
    slope = (equations(fit.R + moved).value - equations(fit.R - moved).value) / -2e-5
    jacobian = equations(fit.R).jacobian[:, 2]
    np.testing.assert_allclose(jacobian, slope, atol=0.03 * np.abs(slope).max())


def test_an_annotator_without_votes_has_no_ability() -> None:
    fit = fit_scores(replace(draw(10, 30).cells, n_annotators=11))
    assert np.isnan(fit.ability[10])
    assert np.isfinite(fit.ability[:10]).all()


def test_many_annotators_without_votes_change_nothing() -> None:
    cells = draw(2000, 3).cells
    scattered = replace(cells, annotator=2 * cells.annotator + 1, n_annotators=4000)
    np.testing.assert_allclose(fit_scores(scattered).R, fit_scores(cells).R, atol=1e-9)


def test_a_part_of_the_annotators_tells_where_to_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = draw(300, 30).cells
    whole = fit_scores(cells)
    monkeypatch.setattr(scores, "SAMPLE", 1000)
    found = fit_scores(cells)
    np.testing.assert_allclose(found.R, whole.R, atol=1e-7)
    np.testing.assert_allclose(find_covariance(found).scores, find_covariance(whole).scores, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("votes_each", [10, 60])
def test_a_fit_that_starts_from_another_ends_where_it_would_have_ended(votes_each: int) -> None:
    cells = draw(300, votes_each, coins=15, contrary=10).cells
    first = fit_scores(cells.where(np.random.default_rng(0).random(len(cells.n)) > 0.01))
    cold, warm = fit_scores(cells), fit_scores(cells, start=first.start)
    np.testing.assert_allclose(warm.R, cold.R, atol=2e-6)
    np.testing.assert_allclose(warm.types, cold.types, atol=1e-3)
    assert warm.iterations <= cold.iterations


def test_the_result_solves_the_equations() -> None:
    fit = fit_scores(draw(200, 30, coins=20).cells)
    again = fit_scores(draw(200, 30, coins=20).cells, start=fit.start)
    assert again.iterations <= 2
    np.testing.assert_allclose(again.R, fit.R, atol=1e-6)


def test_votes_count_as_often_as_they_are_trusted() -> None:
    cells = draw(40, 60).cells
    half, whole = (replace(cells, trust=np.full(len(cells.n), trust)) for trust in (0.5, 1.0))
    plain = fit_scores(cells)
    np.testing.assert_array_equal(fit_scores(whole).R, plain.R)
    assert (fit_scores(half).ability_sd > plain.ability_sd).mean() > 0.85
    doubted = replace(cells, trust=np.where(cells.model_a == 0, 1e-6, 1.0))
    without = fit_scores(cells.where(cells.model_a != 0))
    np.testing.assert_allclose(
        np.diff(fit_scores(doubted).R[1:]), np.diff(without.R[1:]), atol=5e-3
    )  # the limit counts them


def test_a_spread_that_is_assumed_counts_as_that_of_four_annotators() -> None:
    few, many = draw(4, 60).cells, draw(200, 60).cells
    wide, narrow = (fit_scores(few, spread=spread).law.spread for spread in (0.6, 0.1))
    assert wide > narrow + 0.1
    wide, narrow = (fit_scores(many, spread=spread).law.spread for spread in (0.6, 0.1))
    assert abs(wide - narrow) < 0.05


@pytest.mark.parametrize("seed", range(25))
def test_every_small_arena_has_a_fit(seed: int) -> None:
    """Ties, coins, contrary annotators, islands, models that only won, and one annotator."""
    generator = np.random.default_rng(seed)
    models, annotators = int(generator.integers(3, 13)), int(generator.integers(1, 30))
    k = np.repeat(np.arange(annotators), generator.integers(1, 61, annotators))
    a = generator.integers(0, models, len(k))
    b = (a + generator.integers(1, models, len(k))) % models
    ability = generator.choice([0.0, -1.0, 0.5, 1.0, 2.0], annotators)[k]
    R = generator.normal(0.0, 2.0, models)
    p = expit(ability * (R[a] - R[b]))
    outcome = np.where(generator.random(len(k)) < 0.3, 0.5, (generator.random(len(k)) < p) * 1.0)
    if seed % 3 == 0:
        outcome = np.where(a == 0, 1.0, np.where(b == 0, 0.0, outcome))
    fit = fit_scores(aggregate(k, a, b, outcome, n_annotators=annotators, n_models=models))
    assert np.isfinite(fit.R).all()
    assert np.isfinite(find_covariance(fit).scores).all()


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_a_niche_whose_judges_are_outvoted_stays_where_it_is(seed: int) -> None:
    """Four always vote against the scores of five models, 200 times each, which few votes link to the others."""
    generator, models, own, crowd, judges = np.random.default_rng(seed), 20, 5, 60, 10
    R = generator.normal(0.0, 0.8, models)
    k = np.repeat(np.arange(crowd + judges + 4), [60] * (crowd + judges) + [200] * 4)
    a, b = (generator.integers(0, models - own, len(k)) for _ in range(2))
    inside = k >= crowd
    a[inside], b[inside] = models - own + generator.integers(0, own, (2, int(inside.sum())))
    stray = ~inside & (generator.random(len(k)) < 0.01)
    a[stray] = models - own + generator.integers(0, own, int(stray.sum()))
    ability = np.exp(generator.normal(0.0, 0.3, crowd + judges))
    ability = np.append(ability, np.full(4, -50.0))
    won = (generator.random(len(k)) < expit(ability[k] * (R[a] - R[b]))).astype(float)
    kept = a != b
    fit = fit_scores(aggregate(k[kept], a[kept], b[kept], won[kept], n_annotators=crowd + judges + 4, n_models=models))
    assert (fit.types[-4:, 2] > 0.99).all()
    assert (fit.ability[crowd:-4] > 0.3).all()
    assert np.abs(fit.R - fit.R.mean() - R + R.mean()).max() < 1.0
