"""Compiles the kernels ahead of the first fit."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from app.rating.detection.evidence import weigh
from app.rating.detection.sided_cells import SidedCells
from app.rating.fit.elo import fit_elo
from app.rating.settings import VerdictRule
from app.rating.uncertainty.influence import find_influence
from app.rating.verdict.confidence import measure_confidence
from app.rating.verdict.fragility import find_fragility
from app.rating.verdict.loading import SETTINGS, draw_sparse, draw_votes, publish
from app.rating.verdict.round import run_round
from app.rating.verdict.slices import fit_slice, hold_abilities
from app.rating.votes.cells import Cells, aggregate


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


def _steps() -> Iterator[str]:
    yield "votes"
    annotator, model_a, model_b, outcome = draw_votes(30, 8, 20)
    wide = annotator.astype(np.int64)  # the sparse ones have 32 bits
    cells, sparse = aggregate(wide, model_a, model_b, outcome, n_annotators=30, n_models=8), draw_sparse()
    yield "m-ELO"
    publish(run_round(sparse, replace(SETTINGS, method="m-elo")))
    yield "am-ELO"
    result = run_round(cells, SETTINGS)
    publish(result)
    yield "evidence"
    weigh(SidedCells.unknown(_draw_tastes()), np.linspace(2.0, -2.0, 8))
    yield "slices"
    fit_slice(cells, hold_abilities(result, SETTINGS), SETTINGS)
    yield "confidence"
    measure_confidence(result, VerdictRule())
    yield "fragility"
    find_fragility(result)
    find_influence(result).of_votes(np.zeros(8))
    yield "Elo"
    fit_elo(*draw_votes(30, 8, 20)[1:], n_models=8, shuffles=2)


def _draw_tastes() -> Cells:
    """Draw votes of annotators who each like one of eight models best."""
    annotator, model_a, model_b, _ = draw_votes(30, 8, 200)
    liked = annotator % 8
    outcome = np.where(model_a == liked, 1.0, np.where(model_b == liked, 0.0, 0.5 + 0.5 * np.sign(model_b - model_a)))
    return aggregate(annotator, model_a, model_b, outcome, n_annotators=30, n_models=8)
