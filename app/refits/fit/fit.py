import hashlib
import time

import numpy as np

from app.rating.compiled import timing_compilation
from app.rating.detection.evidence import weigher_of_votes
from app.rating.settings import LoopSettings
from app.rating.uncertainty.models import predict_matchups
from app.rating.uncertainty.results import RatingNotice
from app.rating.verdict.rating import Rating
from app.rating.verdict.round import run_round
from app.rating.votes.cells import Cells
from app.rating.votes.compact import pool_annotators
from app.refits.fit.comparisons import fit_other_methods, fit_tags
from app.refits.fit.confidence import measure_leaderboards
from app.refits.fit.interface import FitInput, FitOutput, Ids, LeaderboardName, MatchupTable
from app.refits.fit.pair_tables import tabulate_pairs

MOST_PREDICTED = 200
"""Up to this many models every pair is predicted; beyond it only pairs with votes."""


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


def fit_snapshot(fit_input: FitInput, *, comparisons: bool = True) -> FitOutput:
    """Fit the votes, and compute everything that a snapshot publishes.

    Parameters
    ----------
    comparisons : also fit what is compared with the main leaderboard: leaderboards by other methods and by tag

    Raises
    ------
    RatingError
        The votes have no ranking.
    """
    compiled: list[float] = []
    with timing_compilation(compiled.append):
        output = _fit_all(fit_input, comparisons=comparisons)
    for seconds in compiled:  # kernels that were not compiled ahead, or could not be read
        output.seconds["compile"] = seconds
    return output


def _fit_all(fit_input: FitInput, *, comparisons: bool) -> FitOutput:
    stages = _Stages()
    cells = fit_input.cells()
    votes_hash = hash_cells(cells, fit_input.annotator_ids, fit_input.model_ids)
    stages.end("aggregate")
    fitted = fit_main(fit_input, cells)
    leaderboards = {LeaderboardName(fit_input.settings.method): fitted.models}
    stages.skip()  # the round has timed itself
    ratings = {"": fitted}
    notices: tuple[RatingNotice, ...] = ()
    if comparisons:
        tags, notices = fit_tags(fit_input, fitted)
        leaderboards |= fit_other_methods(fit_input, cells, fitted)
        leaderboards |= {LeaderboardName(fit_input.settings.method, tag): found.models for tag, found in tags.items()}
        ratings |= tags
    matchups = tabulate_matchups(fitted, fit_input.settings)
    stages.end("other_boards")
    pair_weights = tabulate_pairs(fit_input, ratings)
    stages.end("pair_weights")
    confidence = measure_leaderboards(fit_input, ratings, pair_weights)
    stages.end("confidence")
    seconds = {**stages.seconds, **fitted.diagnostics.seconds}
    return FitOutput(
        leaderboards, fitted.annotators, fitted.evidence, fitted.diagnostics, fitted.votes_used, matchups, confidence,
        votes_hash, seconds, notices, pair_weights,
    )  # fmt: skip


def fit_main(fit_input: FitInput, cells: Cells) -> Rating:
    """Fit the main leaderboard: one round of the loop on all votes of the input."""
    return run_round(
        cells, fit_input.settings,
        keep_always=fit_input.keep_always, keep_never=fit_input.keep_never, was_low=fit_input.was_low,
        was_excluded=fit_input.was_excluded,
        weigher=weigher_of_votes(
            fit_input.annotator, fit_input.model_a, fit_input.model_b, fit_input.outcome,
            n_annotators=cells.n_annotators, n_models=cells.n_models, tests=fit_input.settings.evidence_tests,
        ),
    )  # fmt: skip


def hash_cells(cells: Cells, annotator_ids: Ids, model_ids: Ids) -> str:
    """Return the SHA-256 of the sorted cells. It does not depend on the order of the votes."""
    digest = hashlib.sha256()
    ids = (annotator_ids[cells.annotator], model_ids[cells.model_a], model_ids[cells.model_b])
    for column in (*(x.astype("<i4") for x in ids), *(x.astype("<f8") for x in (cells.n, cells.s, cells.ties))):
        digest.update(column.tobytes())
    return digest.hexdigest()


def tabulate_matchups(fitted: Rating, settings: LoopSettings) -> MatchupTable:
    """Count the votes that count by pair of models, and predict every pair's win rate."""
    pooled = pool_annotators(fitted.cells)
    size = fitted.cells.n_models
    voted = pooled.model_a.astype(np.int64) * size + pooled.model_b
    pair = voted
    if len(fitted.small.models) <= MOST_PREDICTED:
        predicted = predict_matchups(fitted, settings)
        pair = np.union1d(voted, predicted.model_a * size + predicted.model_b)
    found = predict_matchups(fitted, settings, (pair // size, pair % size))
    n, s, ties = np.zeros((3, len(pair)))
    place = np.searchsorted(pair, voted)
    n[place], s[place], ties[place] = pooled.n, pooled.s, pooled.ties
    return MatchupTable(
        found.model_a, found.model_b, s - ties / 2.0, ties, n - s - ties / 2.0,
        found.probability, found.lower, found.upper,
    )  # fmt: skip
