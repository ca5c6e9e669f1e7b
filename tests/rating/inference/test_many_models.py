"""More models than a square matrix of them should have: the same results by another way."""

import time
from collections.abc import Callable

import numpy as np
import pytest

from app.lab.simulate import SimulatedVotes, simulate_votes
from app.rating.data.votes import Cells, aggregate
from app.rating.errors import NotConvergedError
from app.rating.loop.results import Rating
from app.rating.loop.round import run_round
from app.rating.settings import LoopSettings
from app.rating.solver import arrow
from app.rating.solver import likelihood as limits

MakeCells = Callable[[SimulatedVotes], Cells]


def assert_same(dense: Rating, sparse: Rating) -> None:
    assert dense.diagnostics.warnings == sparse.diagnostics.warnings
    for name in ("score", "se", "lower", "upper"):
        left, right = getattr(dense.models, name), getattr(sparse.models, name)
        np.testing.assert_allclose(right, left, rtol=1e-8, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(sparse.annotators.ability, dense.annotators.ability, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(sparse.annotators.se, dense.annotators.se, rtol=1e-8, atol=1e-8)
    np.testing.assert_array_equal(sparse.models.rank, dense.models.rank)


@pytest.mark.parametrize(
    "settings",
    [
        LoopSettings(min_votes=0),
        LoopSettings(min_votes=0, interval="sandwich"),
        LoopSettings(min_votes=0, interval="information"),
        LoopSettings(min_votes=0, ability_cap=None),
        LoopSettings(min_votes=0, method="m-elo"),
        LoopSettings(min_votes=0, method="m-elo", interval="sandwich"),
        LoopSettings(min_votes=0, method="m-elo", interval="information"),
    ],
    ids=lambda s: f"{s.method} {s.interval} {s.ability_cap}",
)
def test_the_sparse_way_ends_where_the_dense_one_does(
    cells_of: MakeCells, monkeypatch: pytest.MonkeyPatch, settings: LoopSettings
) -> None:
    cells = cells_of(simulate_votes(3, n_models=30, roles={"honest": 30, "random": 2, "flip": 1}, votes_each=40))
    dense = run_round(cells, settings).rating
    monkeypatch.setattr(limits, "MOST_DENSE", 0)
    assert_same(dense, run_round(cells, settings).rating)


def three_votes_each(n_models: int) -> Cells:
    """Every model in three votes, on random opponents; 50 votes an annotator."""
    generator = np.random.default_rng(0)
    slots = generator.permutation(np.repeat(np.arange(n_models), 3))
    a, b = np.array_split(slots[: len(slots) // 2 * 2], 2)
    a, b = a[a != b], b[a != b]
    score, ability = generator.normal(0, 0.8, n_models), np.exp(generator.normal(0, 0.3, len(a) // 50 + 1))
    annotator = np.arange(len(a)) // 50
    p = 1 / (1 + np.exp(-ability[annotator] * (score[a] - score[b])))
    tie, draw = 1.4 * p * (1 - p), generator.random(len(a))
    outcome = np.where(draw < p - tie / 2, 1.0, np.where(draw < p + tie / 2, 0.5, 0.0))
    return aggregate(annotator, a, b, outcome, n_annotators=len(ability), n_models=n_models)


def test_two_thousand_models_with_three_votes_each(monkeypatch: pytest.MonkeyPatch) -> None:
    cells, settings = three_votes_each(2_000), LoopSettings(method="m-elo", min_votes=0)
    dense = run_round(cells, settings).rating
    assert 500 < dense.models.identified.sum() < 1_500
    monkeypatch.setattr(limits, "MOST_DENSE", 0)
    sparse = run_round(cells, settings).rating
    np.testing.assert_allclose(sparse.models.score, dense.models.score, rtol=1e-8)
    np.testing.assert_allclose(sparse.models.se, dense.models.se, rtol=1e-8)


def test_a_denser_graph_is_solved_without_a_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    cells, settings = three_votes_each(300), LoopSettings(method="m-elo", min_votes=0)
    monkeypatch.setattr(limits, "MOST_DENSE", 0)
    by_factor = run_round(cells, settings).rating.models.se
    monkeypatch.setattr(arrow, "MOST_EXCESS", 0)
    np.testing.assert_allclose(run_round(cells, settings).rating.models.se, by_factor, rtol=1e-7)


def test_what_does_not_settle_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = three_votes_each(300)
    monkeypatch.setattr(limits, "MOST_DENSE", 0)
    monkeypatch.setattr(arrow, "MOST_PRODUCTS", 3)
    with pytest.raises(NotConvergedError):
        run_round(cells, LoopSettings(method="m-elo", min_votes=0))


@pytest.mark.soak
def test_a_hundred_thousand_models_with_three_votes_each() -> None:
    began = time.perf_counter()
    rating = run_round(three_votes_each(100_000), LoopSettings(method="m-elo", min_votes=0)).rating
    identified = rating.models.identified
    print(f"{identified.sum()} of 100,000 models have a score, {time.perf_counter() - began:.0f} s")
    assert identified.sum() > 20_000
    assert np.isfinite(rating.models.score[identified]).all()
    assert (rating.models.se[identified] > 0).all()
    assert np.isnan(rating.models.score[~identified]).all()
    assert any("no finite score" in notice.detail for notice in rating.diagnostics.warnings)
