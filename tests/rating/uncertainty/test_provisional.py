"""Models with too few votes or annotators, or too wide an interval, are not ranked."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.rating.settings import LoopSettings, VerdictRule
from app.rating.uncertainty.models import find_provisional
from app.rating.verdict.categories import pool_categories
from app.rating.verdict.confidence import measure_confidence
from app.rating.verdict.round import run_round
from app.rating.votes.cells import Cells, aggregate


@pytest.fixture
def cells() -> Cells:
    """Forty votes of six annotators on eight models; the last has none."""
    generator = np.random.default_rng(0)
    annotator, a = generator.integers(6, size=40), generator.integers(7, size=40)
    b = (a + generator.integers(1, 3, size=40)) % 7
    return aggregate(annotator, a, b, np.ones(40), n_annotators=6, n_models=8)


def test_models_with_too_few_votes_or_annotators_are_provisional(cells: Cells) -> None:
    rows = list(zip(cells.annotator, cells.model_a, cells.model_b, cells.n, strict=True))
    votes = np.array([sum(n for _, a, b, n in rows if m in (a, b)) for m in range(8)])
    judges = np.array([len({k for k, a, b, _ in rows if m in (a, b)}) for m in range(8)])
    settings = LoopSettings(min_model_votes=10, min_model_annotators=6)
    found = find_provisional(cells, settings, votes > 0, votes=votes, width=np.full(8, np.nan))
    assert found.tolist() == ((votes > 0) & ((votes < 10) | (judges < 6))).tolist()
    assert ((votes >= 10) & (judges < 6)).any(), "some have votes enough and too few annotators"
    assert not found[7], "a model without votes has no place to lose"


def test_a_width_is_compared_where_it_is_finite(cells: Cells) -> None:
    width = np.array([10.0, 100.0, np.inf, np.nan, 100.0, 99.0, 101.0, 500.0])
    settings = LoopSettings(min_model_votes=0, min_model_annotators=0, max_interval_width=100.0)
    votes = np.array([5.0] * 7 + [0.0])
    found = find_provisional(cells, settings, votes > 0, votes=votes, width=width)
    assert np.flatnonzero(found).tolist() == [6]


def test_unranked_models_count_in_the_scores_and_the_others_are_ranked_without_them(cells: Cells) -> None:
    settings = LoopSettings(min_votes=0)
    usual, hidden = (run_round(cells, one).models for one in (settings, replace(settings, unranked=(2, 4, 7))))
    assert hidden.score == pytest.approx(usual.score, nan_ok=True)
    assert np.flatnonzero(hidden.provisional).tolist() == [2, 4], "one without votes has no place to lose"
    others = np.flatnonzero(hidden.ranked & hidden.identified)
    best_first = others[np.argsort(-hidden.score[others])]
    assert sorted(hidden.rank[hidden.ranked].tolist()) == list(range(1, int(hidden.ranked.sum()) + 1))
    assert (np.diff(hidden.rank[best_first]) > 0).all()


@pytest.mark.parametrize("settings", [{"unranked": (4,)}, {"min_model_votes": 10}])
def test_a_category_ranks_no_model_that_is_unranked_or_has_too_few_votes_in_it(settings: dict[str, Any]) -> None:
    generator = np.random.default_rng(1)
    annotator, a = generator.integers(6, size=600), generator.integers(5, size=600)
    b = (a + generator.integers(1, 5, size=600)) % 5
    won = (generator.random(600) < np.where(a < b, 0.7, 0.3)).astype(float)
    whole = run_round(
        aggregate(annotator, a, b, won, n_annotators=6, n_models=5), LoopSettings(min_votes=0, **settings)
    )
    other = (a == 4) | (b == 4)
    parts = [
        aggregate(annotator[kept], a[kept], b[kept], won[kept], n_annotators=6, n_models=5) for kept in (~other, other)
    ]
    models = pool_categories(whole, parts).rating(0).models
    assert models.votes[4] == 0
    assert models.component[4] == 0
    assert np.flatnonzero(models.provisional).tolist() == [4]
    assert sorted(models.rank[models.ranked].tolist()) == [1, 2, 3, 4]


def test_where_at_most_one_model_is_ranked_no_order_is_forecast(cells: Cells) -> None:
    votes = aggregate(*np.array([[0, 1] * 6, [0] * 12, [1] * 12]), [1.0, 0.0] * 6, n_annotators=2, n_models=2)
    rating = run_round(votes, LoopSettings(min_votes=0, min_model_votes=13))
    assert rating.models.provisional.all()
    assert measure_confidence(rating, VerdictRule()) is None
