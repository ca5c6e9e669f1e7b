"""Compiles the kernels ahead of the first fit, or loads them beside other work."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Thread

import numpy as np

from app.rating.data.arrays import Floats, Ints
from app.rating.data.votes import Cells, aggregate
from app.rating.decision.confidence import measure_confidence
from app.rating.decision.verdict import DecisionRule
from app.rating.detection.evidence import weigh
from app.rating.detection.sided_cells import SidedCells
from app.rating.inference.influence import find_influence
from app.rating.inference.rating import Rating
from app.rating.inference.results import Diagnostics, ModelEstimates
from app.rating.loop.round import run_round
from app.rating.loop.slices import fit_slice, hold_abilities
from app.rating.robustness.fragility import find_fragility
from app.rating.settings import LoopSettings
from app.rating.solver.elo import fit_elo

SETTINGS = LoopSettings(min_votes=0)


def compile_kernels(progress: Callable[[str], None] | None = None) -> None:
    """Rate a small made-up arena with every step that a refit and `rate` have; numba caches the machine code on disk.

    Parameters
    ----------
    progress : called with the name of each step before it begins

    Notes
    -----
    Takes about half a minute of one processor where nothing is cached, and half a second where everything is.
    """
    for step in _steps():
        if progress is not None:
            progress(step)


@contextmanager
def loading_kernels() -> Iterator[None]:
    """Load the first kernels, those that aggregate votes, on another thread during the block.

    The first of a process takes an eighth of a second, the others milliseconds. Of a block that fails this thread does
    not wait for the other.
    """
    other = Thread(target=_draw_sparse, name="loading-kernels")
    other.start()
    yield
    other.join()


def _steps() -> Iterator[str]:
    yield "votes"
    cells, sparse = aggregate(*_draw_votes(30, 8, 20), n_annotators=30, n_models=8), _draw_sparse()
    yield "m-ELO"
    _publish(run_round(sparse, replace(SETTINGS, method="m-elo")))
    yield "am-ELO"
    result = run_round(cells, SETTINGS)
    _publish(result)
    yield "evidence"
    weigh(SidedCells.unknown(cells), np.zeros(8))
    yield "slices"
    fit_slice(cells, hold_abilities(result, SETTINGS), SETTINGS)
    yield "confidence"
    measure_confidence(result, DecisionRule())
    yield "fragility"
    find_fragility(result)
    find_influence(result).of_votes(np.zeros(8))
    yield "Elo"
    fit_elo(*_draw_votes(30, 8, 20)[1:], n_models=8, shuffles=2)


def _publish(rating: Rating) -> tuple[ModelEstimates, Diagnostics]:
    """Make what is made when it is first asked for."""
    return rating.models, rating.diagnostics


def _draw_sparse() -> Cells:
    return aggregate(*_draw_votes(100, 40, 4), n_annotators=100, n_models=40)


def _draw_votes(n_annotators: int, n_models: int, votes_each: int) -> tuple[Ints, Ints, Ints, Floats]:
    """Draw votes of neighbours in a ranking, of which 70 % follow it and a fifth are ties."""
    generator, size = np.random.default_rng(0), n_annotators * votes_each
    annotator = np.repeat(np.arange(n_annotators, dtype=np.int32), votes_each)
    model_a = generator.integers(n_models, size=size, dtype=np.int32)
    model_b = (model_a + generator.integers(1, 4, size=size, dtype=np.int32)) % np.int32(n_models)
    follows = generator.choice([True, False], size=size, p=[0.7, 0.3])
    outcome = np.where(follows == (model_a < model_b), 1.0, 0.0)
    outcome[::5] = 0.5
    return annotator, model_a, model_b, outcome
