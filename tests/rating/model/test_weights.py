"""No annotator has much more influence on a model than its mean judge."""

from dataclasses import replace

import numpy as np
import pytest

from app.rating.model.weights import FREE, weigh_votes
from app.rating.settings import LoopSettings, check_settings
from app.rating.verdict.round import run_round
from app.rating.votes.cells import Cells, aggregate
from stable_arena import AmElo
from stable_arena_lab.attacks.arena import Setup, draw_arena
from stable_arena_lab.attacks.tuned import Tuning, draw_tuned

SETTINGS = LoopSettings(min_votes=0, flag_rule="threshold", interval="none")
LIMIT = 1.25


def uneven_votes(seed: int = 0) -> Cells:
    """Draw votes of 30 annotators on 8 models; the last two have ten times as many, half of them on model 0."""
    arena = draw_tuned(seed, Tuning(chosen=0.5), Setup(n_annotators=30, n_models=8, share=0.07, attack_votes=400))
    return arena.votes.cells()


def count_votes(cells: Cells) -> np.ndarray:
    """Return each annotator's votes on each model, shape (n_annotators, n_models)."""
    table = np.zeros((cells.n_annotators, cells.n_models))
    for k, a, b, n in zip(cells.annotator, cells.model_a, cells.model_b, cells.n, strict=True):
        table[k, a] += n
        table[k, b] += n
    return table


def naive_weights(cells: Cells, limit: float) -> np.ndarray:
    own = count_votes(cells)
    limits = np.full(cells.n_models, np.inf)
    for _ in range(2):
        limits = np.array([
            limit * np.mean(np.minimum(own[own[:, j] > 0, j], limits[j])) + FREE for j in range(cells.n_models)
        ])  # fmt: skip
    return np.array([
        min(1.0, limits[a] / own[k, a], limits[b] / own[k, b])
        for k, a, b in zip(cells.annotator, cells.model_a, cells.model_b, strict=True)
    ])  # fmt: skip


def test_the_weights_are_those_of_the_definition() -> None:
    cells = uneven_votes()
    expected = naive_weights(cells, LIMIT)
    np.testing.assert_allclose(weigh_votes(cells, LIMIT), expected, rtol=1e-12)
    assert expected.min() < 0.2


def test_few_votes_are_never_limited() -> None:
    generator = np.random.default_rng(1)
    annotator = np.repeat(np.arange(200), 4)
    model_a = generator.integers(0, 30, 800)
    model_b = (model_a + 1) % 30
    cells = aggregate(annotator, model_a, model_b, np.ones(800), n_annotators=200, n_models=30)
    assert (weigh_votes(cells, LIMIT) == 1.0).all()


def test_many_small_able_accounts_gain_little_more_than_under_bradley_terry() -> None:
    setup = Setup(n_annotators=54, votes_each=200, share=16 / 54, attack_votes=51, target=10)

    def points(settings: LoopSettings, seed: int) -> float:
        arena = draw_tuned(seed, Tuning(ability=2.0), setup)
        before, after = (run_round(votes.cells(), settings).models.score for votes in (arena.clean(), arena.votes))
        return float((after[arena.target] - before[arena.target]) / np.std(after) * np.std(before))

    limited, unlimited, bradley_terry = (
        sum(points(settings, seed) for seed in range(4))
        for settings in (SETTINGS, replace(SETTINGS, influence_limit=None), replace(SETTINGS, method="m-elo"))
    )
    assert limited < 1.3 * bradley_terry
    assert unlimited < 1.3 * bradley_terry, "an able annotator's vote pulls no more than a typical one's"


def test_an_annotator_with_many_votes_on_a_model_moves_it_less() -> None:
    setup = Setup(n_annotators=40, votes_each=60)
    arena = draw_tuned(3, Tuning(chosen=0.5, gap=150.0), setup)

    def gain(limit: float | None) -> float:
        settings = replace(SETTINGS, influence_limit=limit)
        before, after = (run_round(votes.cells(), settings).models for votes in (arena.clean(), arena.votes))
        return float(after.score[arena.target] - before.score[arena.target])

    assert gain(LIMIT) < 0.75 * gain(None)
    assert gain(1.0) < gain(4.0)


def test_maximum_likelihood_and_m_elo_have_no_limit() -> None:
    cells = draw_arena(0, "none", Setup(n_annotators=30, votes_each=300)).votes.cells()
    for settings in (replace(SETTINGS, prior_sd=None), replace(SETTINGS, method="m-elo")):
        limited, free = (run_round(cells, replace(settings, influence_limit=limit)).fit.R for limit in (0.1, None))
        np.testing.assert_array_equal(limited, free)


def test_a_vote_of_weight_two_is_the_same_vote_twice() -> None:
    arena = draw_arena(2, "target-only", Setup(n_annotators=30, attack_votes=300))
    v = arena.votes
    names = {
        "annotator": v.annotator, "model_a": v.left, "model_b": v.right, "winner": v.outcome
    }  # fmt: skip
    twice = {name: np.concatenate([column, column[:500]]) for name, column in names.items()}
    weight = np.where(np.arange(len(v.left)) < 500, 2.0, 1.0)
    one, two = (AmElo(min_votes=0, interval="none", flag_rule="threshold") for _ in range(2))
    one.fit({**names, "weight": weight})
    two.fit(twice)
    np.testing.assert_allclose(one.result_.models.score, two.result_.models.score, rtol=1e-9)


def test_a_warm_start_ends_at_the_same_scores() -> None:
    arena = draw_tuned(1, Tuning(ability=2.0), Setup(n_annotators=120, share=0.1, attack_votes=200))
    cells = arena.votes.cells()
    cold = run_round(cells, SETTINGS)
    warm = run_round(cells, SETTINGS, start=cold.optimum)
    np.testing.assert_allclose(warm.models.score, cold.models.score, atol=0.01)


@pytest.mark.parametrize("limit", [0.0, -1.0, float("inf"), float("nan"), "1"])
def test_a_limit_that_makes_no_sense_is_refused(limit: object) -> None:
    with pytest.raises(ValueError, match="influence_limit"):
        check_settings(replace(SETTINGS, influence_limit=limit), 3)  # type: ignore[arg-type]
