"""The clustered standard errors against a bootstrap of annotators, which takes no formula on trust."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from app.lab.simulate import SimulatedVotes, simulate_votes
from app.rating.data.arrays import Floats
from app.rating.data.votes import Cells
from app.rating.inference.estimate import estimate
from app.rating.loop.models import make_model_estimates
from app.rating.loop.round import run_round
from app.rating.settings import LoopSettings

MakeCells = Callable[[SimulatedVotes], Cells]
DRAWS = 300


class Bootstrap(NamedTuple):
    score: Floats
    draws: Floats


@pytest.fixture
def cells(cells_of: MakeCells) -> Cells:
    return cells_of(simulate_votes(13, n_models=6, roles={"honest": 60, "random": 6}, votes_each=60, ability_sd=0.5))


def bootstrap(cells: Cells, settings: LoopSettings, draws: int = DRAWS, *, align: bool) -> Bootstrap:
    """Fit crowds drawn with replacement; an annotator drawn twice is two annotators with the same votes.

    Each crowd has a typical annotator of its own, and so a unit of its own. The formulas take the unit as given, and so
    do crowds that are aligned with the whole.
    """
    settings = replace(settings, interval="none")
    score = make_model_estimates(estimate(cells, settings), settings).score - settings.base
    generator, drawn = np.random.default_rng(0), np.empty((draws, cells.n_models))
    for draw in range(draws):
        times = np.bincount(generator.integers(cells.n_annotators, size=cells.n_annotators))
        own = make_model_estimates(estimate(repeat(cells, times), settings), settings).score - settings.base
        drawn[draw] = own * (score @ score) / (score @ own) if align else own
    return Bootstrap(score, drawn)


def repeat(cells: Cells, times: np.ndarray) -> Cells:
    times = np.append(times, np.zeros(cells.n_annotators - len(times), dtype=np.int64))
    copies = [cells.where(times[cells.annotator] > copy) for copy in range(int(times.max()))]
    annotator = np.concatenate([part.annotator + cells.n_annotators * i for i, part in enumerate(copies)])
    a, b, n, s, ties = (
        np.concatenate([getattr(part, name) for part in copies]) for name in ("model_a", "model_b", "n", "s", "ties")
    )
    return Cells(annotator.astype(np.int32), a, b, n, s, ties, cells.n_annotators * len(copies), cells.n_models)


def test_m_elo_errors_are_the_clustered_sandwichs(cells: Cells) -> None:
    settings = LoopSettings(method="m-elo")
    models = run_round(cells, settings).rating.models
    found = bootstrap(cells, settings, align=False)
    np.testing.assert_allclose(found.score, models.score - 1000.0, atol=1e-9)
    # 300 draws know a standard deviation to 4 %, 66 clusters theirs to 9 %
    np.testing.assert_allclose(found.draws.std(axis=0, ddof=1), models.se, rtol=0.2)
    lower, upper = np.quantile(found.draws, [0.025, 0.975], axis=0)
    np.testing.assert_allclose(upper - lower, models.upper - models.lower, rtol=0.25)


def test_am_elo_errors_are_the_clustered_sandwichs_across_the_scale(cells: Cells) -> None:
    """Aligned crowds have no error along the scores, so models near the middle are compared."""
    models = run_round(cells, LoopSettings()).rating.models
    found = bootstrap(cells, LoopSettings(), align=True)
    middle = np.argsort(np.abs(found.score))[:3]
    np.testing.assert_allclose(found.draws.std(axis=0, ddof=1)[middle], models.se[middle], rtol=0.2)


def test_the_unit_has_an_error_too(cells: Cells) -> None:
    aligned, free = (bootstrap(cells, LoopSettings(), draws=60, align=align) for align in (True, False))
    furthest = np.argmax(np.abs(free.score))
    assert free.draws[:, furthest].std() > 2 * aligned.draws[:, furthest].std()
