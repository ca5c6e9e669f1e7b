"""Crowds drawn with replacement, beside the clustered sandwich."""

from collections.abc import Callable

import numpy as np
import pytest

from app.lab.simulate import SimulatedVotes, simulate_votes
from app.rating.data.votes import Cells, aggregate
from app.rating.inference.bootstrap import bootstrap_by_annotator
from app.rating.loop.stable_arena import run_stable_arena
from app.rating.results import LoopSettings

MakeCells = Callable[[SimulatedVotes], Cells]


@pytest.fixture
def cells(cells_of: MakeCells) -> Cells:
    return cells_of(simulate_votes(13, n_models=6, roles={"honest": 60, "random": 6}, votes_each=60, ability_sd=0.5))


def test_m_elo_errors_are_the_clustered_sandwichs(cells: Cells) -> None:
    settings = LoopSettings(method="m-elo")
    board = run_stable_arena(cells, settings).board
    found = bootstrap_by_annotator(cells, settings, draws=300)
    np.testing.assert_array_equal(found.score, board.score)
    # 300 draws know a standard deviation to 4 %, 66 clusters theirs to 9 %
    np.testing.assert_allclose(found.se, board.se, rtol=0.2)
    np.testing.assert_allclose(found.upper - found.lower, board.upper - board.lower, rtol=0.25)
    assert (found.failed, found.draws.shape) == (0, (300, 6))


def test_am_elo_errors_are_the_clustered_sandwichs_across_the_scale(cells: Cells) -> None:
    """Aligned crowds have no error along the scores: those of contrasts across them are compared."""
    settings = LoopSettings()
    rating = run_stable_arena(cells, settings)
    found = bootstrap_by_annotator(cells, settings, draws=300)
    score = rating.board.score - 1000.0
    np.testing.assert_allclose((found.draws - 1000.0) @ score, score @ score)
    little = np.argsort(np.abs(score))[:3]  # models near the middle, whose errors have little of the scale's in them
    np.testing.assert_allclose(found.se[little], rating.board.se[little], rtol=0.2)


def test_the_unit_has_an_error_too(cells: Cells) -> None:
    aligned = bootstrap_by_annotator(cells, LoopSettings(), draws=60)
    free = bootstrap_by_annotator(cells, LoopSettings(), draws=60, align=False)
    furthest = np.argmax(np.abs(free.score - 1000.0))
    assert free.se[furthest] > 2 * aligned.se[furthest]


def test_a_seed_is_a_result(cells: Cells) -> None:
    first, again, other = (bootstrap_by_annotator(cells, LoopSettings(), draws=5, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.draws, again.draws)
    assert not np.allclose(first.draws, other.draws)
    assert (first.seed, first.settings.interval) == (1, "none")


def test_models_without_a_score_and_crowds_without_an_answer_are_counted() -> None:
    """Two opposed judges of models 0 and 1, whose draws are often one-sided; model 3 was never beaten."""
    cells = aggregate(
        np.repeat([0, 1], 30), np.repeat([0, 0, 2, 2], 15), np.repeat([1, 1, 0, 3], 15),
        np.repeat([1.0, 0.0, 0.5, 0.0], 15), n_annotators=2, n_models=4,
    )  # fmt: skip
    found = bootstrap_by_annotator(cells, LoopSettings(method="m-elo", min_votes=0), draws=40)
    assert np.isnan(found.se[3])
    assert np.isnan(found.score[3])
    assert np.isnan(found.draws[:, 1]).any()


def test_a_draw_without_an_answer_is_counted(cells_of: MakeCells) -> None:
    cells = cells_of(simulate_votes(1, n_models=4, roles={"honest": 4, "flip": 2}))
    found = bootstrap_by_annotator(cells, LoopSettings(min_votes=0, prior_sd=None, ability_cap=None), draws=60)
    assert found.failed > 0
    assert len(found.draws) == 60 - found.failed


def test_one_draw_has_no_deviation(cells: Cells) -> None:
    with pytest.raises(ValueError, match="at least 2 draws"):
        bootstrap_by_annotator(cells, LoopSettings(), draws=1)
