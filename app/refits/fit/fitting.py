"""The fit of a refit: arrays in, everything a snapshot is made of out."""

import hashlib
import time

import numpy as np
from numpy.typing import NDArray

from app.rating.data.arrays import Floats, Mask
from app.rating.data.votes import Cells, aggregate
from app.rating.detection.evidence import Evidence, weigh
from app.rating.loop.results import LoopResult
from app.rating.loop.round import Weigher, run_round
from app.rating.robustness.fragility import Fragility, find_fragility
from app.rating.solver.likelihood import MOST_DENSE
from app.refits.fit.boards import other_boards
from app.refits.fit.pairs import tabulate_pairs
from app.refits.fit.task import BoardName, FitTask, Fitted

MOST_LOOKS = 1_000_000_000
"""Fragility looks at every cell once for each model: up to so many looks it takes about four seconds."""


class _Stages:
    """How long each stage took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._since = time.perf_counter()

    def skip(self) -> None:
        """Leave out what has been timed elsewhere."""
        self._since = time.perf_counter()

    def end(self, name: str) -> None:
        """Give the time since the last stage to this one."""
        now = time.perf_counter()
        self.seconds[name], self._since = now - self._since, now


def fit(task: FitTask, *, comparisons: bool = True) -> Fitted:
    """Turn the loop once, and make of its fit what a snapshot carries beside the board.

    Parameters
    ----------
    comparisons : also compute what is compared with the loop's own board: boards by other methods and by tag, and how
        few votes decide the order of neighbours
    """
    stages = _Stages()
    cells = task_cells(task)
    votes_hash = hash_cells(cells, task.annotator_ids, task.model_ids)
    stages.end("aggregate")
    turn = fit_turn(task, cells)
    stages.skip()
    others, notices = other_boards(task, cells, turn) if comparisons else ({}, ())
    boards = {BoardName(task.settings.method): turn.rating.models, **others}
    pairs = tabulate_pairs(turn, task.settings)
    stages.end("other_boards")
    fragility = _find_fragility(turn) if comparisons else None
    stages.end("fragility")
    seconds = {**stages.seconds, **turn.rating.diagnostics.seconds}
    return Fitted(turn.rating, boards, pairs, fragility, votes_hash, seconds, notices)


def task_cells(task: FitTask) -> Cells:
    """Return the cells of every vote of the task."""
    return aggregate(
        task.annotator, task.model_a, task.model_b, task.outcome,
        n_annotators=len(task.annotator_ids), n_models=len(task.model_ids),
    )  # fmt: skip


def fit_turn(task: FitTask, cells: Cells) -> LoopResult:
    """Turn the loop on the task's votes, its cells, weighing the policy's tests whatever the rule is."""
    return run_round(
        cells, task.settings,
        keep_always=task.keep_always, keep_never=task.keep_never, was_low=task.was_low,
        weigher=_weigher(task, cells),
    )  # fmt: skip


def _find_fragility(turn: LoopResult) -> Fragility | None:
    models, cells = turn.estimate.small.cells.n_models, len(turn.estimate.small.cells.n)
    if models > MOST_DENSE or models * cells > MOST_LOOKS:
        return None
    return find_fragility(turn.estimate)


def hash_cells(cells: Cells, annotator_ids: NDArray[np.int32], model_ids: NDArray[np.int32]) -> str:
    """Return the sha256 of the sorted cells: the same votes in any order have the same hash."""
    digest = hashlib.sha256()
    ids = (annotator_ids[cells.annotator], model_ids[cells.model_a], model_ids[cells.model_b])
    for column in (*(x.astype("<i4") for x in ids), *(x.astype("<f8") for x in (cells.n, cells.s, cells.ties))):
        digest.update(column.tobytes())
    return digest.hexdigest()


def _weigher(task: FitTask, cells: Cells) -> Weigher:
    """Weigh with the sides that the models were shown on, which cells have forgotten."""

    def weigh_with_sides(R: Floats, whose: Mask) -> Evidence:
        scored = np.isfinite(R)
        counts = scored[task.model_a] & scored[task.model_b] & whose[task.annotator] & (task.outcome == 1.0)
        left_wins = np.bincount(task.annotator[counts], minlength=len(task.annotator_ids)).astype(np.float64)
        return weigh(cells.where(whose[cells.annotator]), R, left_wins=left_wins, tests=task.settings.evidence_tests)

    return weigh_with_sides
