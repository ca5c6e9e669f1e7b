"""The clustered standard errors against a bootstrap of annotators, which takes no formula on trust."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from app.rating.arrays import Floats
from app.rating.settings import LoopSettings, Method
from app.rating.simulation.worlds import SimulatedVotes, simulate_votes
from app.rating.verdict.rating import estimate
from app.rating.votes.cells import Cells

MakeCells = Callable[[SimulatedVotes], Cells]
DRAWS = 80


class Bootstrap(NamedTuple):
    score: Floats
    draws: Floats


def bootstrap(cells: Cells, settings: LoopSettings) -> Bootstrap:
    """Fit crowds drawn with replacement; an annotator drawn twice is two annotators with the same votes.

    Each crowd has a mean annotator of its own, and so a unit of its own.
    """
    settings = replace(settings, interval="none")
    score = estimate(cells, settings).models.score - settings.base
    generator, drawn = np.random.default_rng(0), np.empty((DRAWS, cells.n_models))
    for draw in range(DRAWS):
        times = np.bincount(generator.integers(cells.n_annotators, size=cells.n_annotators))
        drawn[draw] = estimate(repeat(cells, times), settings).models.score - settings.base
    return Bootstrap(score, drawn)


def repeat(cells: Cells, times: np.ndarray) -> Cells:
    times = np.append(times, np.zeros(cells.n_annotators - len(times), dtype=np.int64))
    copies = [cells.where(times[cells.annotator] > copy) for copy in range(int(times.max()))]
    annotator = np.concatenate([part.annotator + cells.n_annotators * i for i, part in enumerate(copies)])
    a, b, n, s, ties = (
        np.concatenate([getattr(part, name) for part in copies]) for name in ("model_a", "model_b", "n", "s", "ties")
    )
    return Cells(annotator.astype(np.int32), a, b, n, s, ties, cells.n_annotators * len(copies), cells.n_models)


@pytest.mark.parametrize(
    ("method", "crowds", "off"), [("m-elo", 1, 0.25), pytest.param("am-elo", 12, 0.12, marks=pytest.mark.campaign)]
)
def test_errors_are_the_bootstraps(cells_of: MakeCells, method: Method, crowds: int, off: float) -> None:
    """80 draws know a standard deviation to 8 %, 66 annotators theirs to 9 %: in twelve crowds that is 4 %."""
    errors, widths = [], []
    for seed in range(13, 13 + crowds):
        votes = simulate_votes(seed, n_models=6, roles={"honest": 60, "random": 6}, votes_each=60, ability_sd=0.5)
        settings = LoopSettings(method=method)
        models = estimate(cells_of(votes), settings).models
        found = bootstrap(cells_of(votes), settings)
        np.testing.assert_allclose(found.score, models.score - 1000.0, atol=1e-9)
        lower, upper = np.quantile(found.draws, [0.025, 0.975], axis=0)
        errors.append(found.draws.std(axis=0, ddof=1) / models.se)
        widths.append((upper - lower) / (models.upper - models.lower))
    np.testing.assert_allclose(np.mean(errors, axis=0), 1.0, atol=off)
    np.testing.assert_allclose(np.mean(widths, axis=0), 1.0, atol=off)
