"""Everything that a snapshot publishes, computed from a refit's votes: the child process runs `fit_snapshot`."""

import hashlib
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from app.rating.arrays import Floats
from app.rating.compiled import timing_compilation
from app.rating.sampling.pair_weights import PairWeights, pair_positions
from app.rating.sampling.policies import weigh_pairs
from app.rating.sampling.scored_models import scored_models
from app.rating.uncertainty.bounds import predict_matchups
from app.rating.uncertainty.results import ModelEstimates
from app.rating.verdict.calibration import calibrate
from app.rating.verdict.confidence import measure_confidence
from app.rating.verdict.counted import count_by_weight
from app.rating.verdict.order import Confidence
from app.rating.verdict.rating import Rating
from app.rating.votes.cells import Cells, pool_annotators
from app.refits.fit.comparisons import FittedKinds, fit_kinds, fit_other_methods, fit_style_board
from app.refits.fit.dimensions import FittedCategories, fit_categories, fit_criteria
from app.refits.fit.interface import (
    DimensionResult,
    FitInput,
    FitOutput,
    Ids,
    LeaderboardName,
    MatchupTable,
    StyleBoard,
)
from app.refits.fit.parts import Parts

MOST_PREDICTED = 200
"""Up to this many models every pair is predicted; beyond it only pairs with votes."""
MOST_PAIRS = 1_000_000
"""Of all leaderboards of a snapshot together that have a table of pair weights (2 bytes a pair) and the joint errors of
their scores (4 bytes a pair): eight leaderboards of 500 models, or one of 1,400."""
VERDICTS = 10
"""For the best 1 to 10 models a snapshot's diagnostics say whether they are decided."""


class _Stages:
    """How long each stage took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._since = time.perf_counter()

    def end(self, name: str) -> None:
        """Give the time since the last stage to this one."""
        now = time.perf_counter()
        self.seconds[name], self._since = now - self._since, now


def fit_snapshot(fit_input: FitInput, *, comparisons: bool = True) -> FitOutput:
    """Fit the votes, and compute everything that a snapshot publishes.

    `comparisons`: also fit what is compared with the main leaderboard: leaderboards by other methods and by tag.
    What is beside the main leaderboard is left out where it fails, with a notice.
    Raises RatingError: the votes have no ranking.
    """
    stages, compiled, settings = _Stages(), list[float](), fit_input.settings
    with timing_compilation(compiled.append):
        cells = fit_input.cells()
        votes_hash = hash_cells(cells, fit_input.annotator_ids, fit_input.model_ids)
        stages.end("aggregate")
        fitted = fit_input.run_round(settings)
        stages.end("round")
        parts = Parts()
        beside = _fit_beside(fit_input, cells, fitted, parts) if comparisons else _Beside({}, {}, {}, None, None)
        ratings = {"": fitted} | beside.ratings
        matchups = parts.compute("matchups", lambda: tabulate_matchups(fitted))
        calibration = parts.compute("calibration", lambda: calibrate(fitted)) if comparisons else None
        stages.end("other_boards")
        tables = parts.compute("pair weights", lambda: tabulate_pairs(fit_input, ratings, parts)) or {}
        stages.end("pair_weights")
        measured = parts.compute("forecasts", lambda: measure_leaderboards(fit_input, ratings, tables, parts)) or {}
        verdicts = parts.compute("verdicts on the best models", lambda: list_verdicts(measured)) or {}
        stages.end("confidence")
    seconds = stages.seconds | fitted.diagnostics.seconds
    del seconds["round"]  # it has timed its own stages
    if compiled:  # kernels that were not compiled ahead, or could not be read
        seconds["compile"] = compiled[-1]
    return FitOutput(
        {LeaderboardName(settings.method): fitted.models} | beside.leaderboards,
        fitted.annotators,
        fitted.evidence,
        fitted.diagnostics,
        fitted.votes_used,
        matchups,
        confidence=measured,
        votes_hash=votes_hash,
        verdicts=verdicts,
        seconds=seconds,
        notices=tuple(parts.notices),
        categories=beside.dimensions,
        pair_weights=tables,
        style=beside.style,
        sharpened=beside.sharpened,
        calibration=calibration or (),
        counted=count_by_weight(fitted),
    )


class _Beside(NamedTuple):
    """What is compared with the main leaderboard; `ratings` are those by tag."""

    leaderboards: dict[LeaderboardName, ModelEstimates]
    ratings: dict[str, Rating]
    dimensions: dict[str, DimensionResult]
    style: StyleBoard | None
    sharpened: dict[str, Any] | None


def _fit_beside(fit_input: FitInput, cells: Cells, fitted: Rating, parts: Parts) -> _Beside:
    method, rated = fit_input.settings.method, FittedCategories()
    for of, fit in (("categories", fit_categories), ("criteria", fit_criteria)):
        rated |= parts.compute(f"leaderboards of {of}", partial(fit, fit_input, fitted, parts)) or FittedCategories()
    methods = parts.compute("leaderboards by other methods", lambda: fit_other_methods(fit_input, cells, fitted, parts))
    kinds = parts.compute("leaderboards of kinds", lambda: fit_kinds(fit_input, cells, fitted, parts)) or FittedKinds()
    style = parts.compute("style control", lambda: fit_style_board(fit_input, fitted, parts))
    found = (methods or {}) | kinds.leaderboards
    if style is not None and style.found is not None:
        found[LeaderboardName("style")] = style.found.rating.models
    found |= {LeaderboardName(method, tag): rating.models for tag, rating in rated.tags.items()}
    if rated.weighted is not None:
        found[LeaderboardName("weighted")] = rated.weighted.models
    return _Beside(found, rated.tags, rated.dimensions, style, kinds.sharpened)


def hash_cells(cells: Cells, annotator_ids: Ids, model_ids: Ids) -> str:
    """Return the SHA-256 of the sorted cells. It does not depend on the order of the votes."""
    digest = hashlib.sha256()
    ids = (annotator_ids[cells.annotator], model_ids[cells.model_a], model_ids[cells.model_b])
    for column in (*(x.astype("<i4") for x in ids), *(x.astype("<f8") for x in (cells.n, cells.s, cells.ties))):
        digest.update(column.tobytes())
    return digest.hexdigest()


def tabulate_matchups(fitted: Rating) -> MatchupTable:
    """Count the votes that count by pair of models, and predict every pair's win rate.

    Of a pair with a model without a score there are bounds, but no prediction that the votes could be held against.
    """
    pooled, label = pool_annotators(fitted.cells), fitted.components.label
    size, placed = fitted.cells.n_models, np.flatnonzero(label >= 0)
    voted = pooled.model_a.astype(np.int64) * size + pooled.model_b
    pair = voted
    if len(placed) <= MOST_PREDICTED:
        first, second = placed[np.stack(np.triu_indices(len(placed), 1))]
        linked = label[first] == label[second]
        pair = np.union1d(voted, first[linked] * size + second[linked])
    found = predict_matchups(fitted, pair // size, pair % size)
    scored = fitted.identified[found.model_a] & fitted.identified[found.model_b]
    shown = np.where(scored, found.probability, np.nan), found.lower, found.upper
    n, s, ties = np.zeros((3, len(pair)))
    place = np.searchsorted(pair, voted)
    n[place], s[place], ties[place] = pooled.n, pooled.s, pooled.ties
    return MatchupTable(found.model_a, found.model_b, s - ties / 2.0, ties, n - s - ties / 2.0, *shown)


def tabulate_pairs(fit_input: FitInput, ratings: Mapping[str, Rating], parts: Parts) -> dict[str, PairWeights]:
    """Return a table of pair weights for each rating, of all models on record that battles may show.

    `ratings`: by tag, "" for the main leaderboard, without whose table there is none; in this order, as many as fit
    into `MOST_PAIRS`.
    """
    shown = np.flatnonzero(~np.isin(fit_input.model_ids, fit_input.unoffered))
    sampling = fit_input.policy.sampling_settings()
    pairs, tables = max(len(shown) * (len(shown) - 1) // 2, 1), dict[str, PairWeights]()

    def weigh(rating: Rating) -> PairWeights:
        return weigh_pairs(scored_models(rating, shown), fit_input.model_ids[shown], sampling)

    for tag, rating in list(ratings.items())[: MOST_PAIRS // pairs]:
        table = parts.compute(f"pair weights of {_board(tag)}", partial(weigh, rating))
        if table is not None:
            tables[tag] = table
        elif not tag:
            break
    return tables


def measure_leaderboards(
    fit_input: FitInput, ratings: Mapping[str, Rating], pair_weights: Mapping[str, PairWeights], parts: Parts
) -> dict[tuple[str, int], Confidence]:
    """Return how sure the order of each leaderboard's groups is, by tag and component.

    `ratings`: by tag, "" for the main leaderboard; in this order, as many groups as fit into `MOST_PAIRS`.
    `pair_weights`: how likely each pair is to be a battle, by tag: forecasts assume that votes come so.
    """
    measured: dict[tuple[str, int], Confidence] = {}
    pairs = 0

    def measure(tag: str, component: int) -> Confidence | None:
        weights = pair_weights.get(tag)
        design = None if weights is None else _spread_weights(weights, fit_input.model_ids)
        return measure_confidence(ratings[tag], fit_input.policy.verdict_rule(), design, component)

    for tag, rating in ratings.items():
        for component in range(rating.components.number):
            found = parts.compute(f"forecast of {_board(tag)}", partial(measure, tag, component))
            if found is not None:
                pairs += len(found.joint.score) * (len(found.joint.score) - 1) // 2
                if pairs > MOST_PAIRS:
                    return measured
                measured[tag, component] = found
    return measured


def list_verdicts(confidence: Mapping[tuple[str, int], Confidence]) -> dict[str, str]:
    """Return the verdicts on the best k models of the main leaderboard, k = 1 to 10."""
    found = confidence.get(("", 0))
    if found is None:
        return {}
    return {str(k): found.decide(k).verdict for k in range(1, min(VERDICTS + 1, len(found.joint.score)))}


def _board(tag: str) -> str:
    return f"the leaderboard of {tag}" if tag else "the main leaderboard"


def _spread_weights(weights: PairWeights, model_ids: Ids) -> Floats:
    """Return the weights as a symmetric matrix over all models, 0 for those without, shape (n_models, n_models)."""
    place = np.searchsorted(model_ids, weights.models)
    first, second = pair_positions(len(place))
    design = np.zeros((len(model_ids), len(model_ids)))
    design[place[first], place[second]] = weights.weight
    symmetric: Floats = design + design.T
    return symmetric
