import math
import time
from dataclasses import replace

import numpy as np

from app.rating.arrays import Floats, Indices, Mask
from app.rating.errors import (
    NoFiniteMaximumError,
    NoFiniteScoreError,
    NotConvergedError,
    RatingError,
    SaddlePointError,
    VotesError,
)
from app.rating.fit.fit import fit_m_elo
from app.rating.fit.prior_spread import ASSUMED, LEAST
from app.rating.fit.result import FitResult
from app.rating.fit.scale import find_scale, typical_ability
from app.rating.fit.solution import fit_groups_apart, fit_with_settings
from app.rating.fit.warm_start import Start, find_begin
from app.rating.settings import LoopSettings
from app.rating.threads import one_blas_thread
from app.rating.uncertainty.covariance import Covariance, covariance
from app.rating.uncertainty.rating import Rating
from app.rating.uncertainty.results import AnnotatorEstimates
from app.rating.votes.cells import Cells
from app.rating.votes.compact import Compact, compact, pool_annotators
from app.rating.votes.graph import Components, find_components, find_identified

IDENTIFICATION_ROUNDS = 6  # thousands of small simulated arenas needed at most five, apart from cycles
SURE = -math.log(np.finfo(float).eps)  # 36 natural units: P(win) is 1 in double precision
MOST_MODELS = 4_096  # a square matrix of them is 134 MB


def estimate(cells: Cells, settings: LoopSettings, start: Start | None = None) -> Rating:
    """Fit the settings' method to the models whose scores the votes identify, with its covariance.

    Which models these are depends on the signs of the abilities, and these on the fit: both are iterated until they
    agree, starting from positive abilities.

    Parameters
    ----------
    start : earlier results, used where they help (`app.rating.fit.warm_start`); if the fit fails from them, it is
        repeated from the default start

    Raises
    ------
    VotesError
        No votes, or votes on more than 4,096 models.
    NoFiniteMaximumError, NotConvergedError, NoCommonRankingError
    """
    if len(cells.n) == 0:
        raise VotesError("no votes to fit")
    with one_blas_thread():
        return _estimate(cells, settings, start)


def _estimate(cells: Cells, settings: LoopSettings, start: Start | None) -> Rating:
    began = time.perf_counter()
    pairs = pool_annotators(cells)
    components = find_components(pairs)
    models = int((components.label >= 0).sum())
    if models > MOST_MODELS:
        raise VotesError(f"at most {MOST_MODELS:,} models can be rated at once; the votes compare {models:,}")
    identified, small, fit = _identify_and_solve(cells, pairs, components, settings, start)
    label = components.label[small.models]
    unit, annotator_unit = _units(small.cells, fit, settings)
    fitted = time.perf_counter()
    spread = None
    if settings.interval != "none" and len(small.models):
        spread = covariance(
            fit.counted(small.cells), fit, label, kind=settings.interval,
            prior_sd=fit.prior_sd, abilities=settings.method == "am-elo", observed=fit.observed,
            published=(fit.scores, fit.abilities, annotator_unit),
        )  # fmt: skip
    seconds = {"fit": fitted - began, "intervals": time.perf_counter() - fitted}
    return Rating(
        settings=settings, cells=cells, pairs=pairs, components=components, identified=identified, small=small, fit=fit,
        covariance=spread, unit=unit, annotator_unit=annotator_unit,
        annotators=_annotators(cells, small, fit, spread, annotator_unit, settings), seconds=seconds,
    )  # fmt: skip


def _annotators(
    cells: Cells, small: Compact, fit: FitResult, spread: Covariance | None, unit: Floats, settings: LoopSettings
) -> AnnotatorEstimates:
    ability, se = np.full((2, cells.n_annotators), np.nan)
    if spread is not None:
        se[small.annotators] = spread.ability_se
    if settings.method == "am-elo":
        ability[small.annotators] = fit.abilities / unit
    return AnnotatorEstimates.without_rules(cells.votes_by_annotator(), ability, se)


def _identify_and_solve(
    cells: Cells, pairs: Cells, components: Components, settings: LoopSettings, start: Start | None
) -> tuple[Mask, Compact, FitResult]:
    """Find the models that have a finite score, and fit them.

    So few votes that abilities and scores can fit almost all of them have no maximum, or one for few of the models. The
    prior's sd is then halved until they have one: with it the abilities come nearer to 1, and am-ELO to m-ELO.
    """
    while True:
        try:
            return _identify_and_solve_once(cells, pairs, components, settings, start)
        except NotConvergedError:
            sd = ASSUMED if settings.prior_sd == "estimated" else settings.prior_sd
            if settings.method == "m-elo" or sd is None or sd <= LEAST:
                raise
            settings = replace(settings, prior_sd=sd / 2.0)


def _identify_and_solve_once(
    cells: Cells, pairs: Cells, components: Components, settings: LoopSettings, start: Start | None
) -> tuple[Mask, Compact, FitResult]:
    """Find the models that have a finite score, and fit them.

    A model is barred, and the rest fitted again, where its score diverges although the signs say that it is finite: its
    only win (or loss) is by an annotator that the others contradict, and that ability goes to 0 at a bounded cost. So
    is a model whose few annotators contradict each other so that believing either is as good (a saddle point), and,
    where signs and models do not agree after six rounds, a model that is identified in one round and not in the next.

    Raises
    ------
    NotConvergedError
        m-ELO or plain am-ELO: the solver failed. With a prior: six fits with fewer and fewer models failed, or one
        without a score that diverges. With or without one: half of the scores diverge.
    """
    barred = np.zeros(cells.n_models, dtype=bool)
    identified = find_identified(pairs, components, np.ones(1))
    rounds = 0
    while True:
        rounds += 1
        small = compact(_between(cells, identified), identified)
        label = components.label[small.models]
        try:
            fit = _solve(small, label, settings, start)
        except NotConvergedError as failure:
            if settings.prior_sd is not None and rounds > IDENTIFICATION_ROUNDS:
                raise
            recovered = _bar_or_fit_apart(failure, small, label, settings, barred)
            if recovered is None:
                identified = find_identified(_without(pairs, barred), components, np.ones(1))
                continue
            fit = recovered
        sign = np.ones(cells.n_annotators)
        sign[small.annotators] = fit.theta
        agreed = find_identified(_without(cells, barred), components, sign)
        if np.array_equal(agreed, identified):
            return identified, small, fit
        if rounds >= IDENTIFICATION_ROUNDS:
            barred |= identified & ~agreed
        identified = agreed


def _bar_or_fit_apart(
    failure: NotConvergedError, small: Compact, label: Indices, settings: LoopSettings, barred: Mask
) -> FitResult | None:
    """Bar the models because of which a fit failed, and return None; or return a fit of its groups by themselves."""
    if settings.method == "m-elo":
        raise failure  # the objective is concave and has a maximum, so no score diverges
    out = _diverged(small.cells, label, failure.R)
    if not out.any():
        if settings.prior_sd is None:
            raise failure
        try:
            return fit_groups_apart(small.cells, label, settings)
        except SaddlePointError as saddle:
            out = _beyond_the_gap(np.abs(saddle.direction))
    if 2 * out.sum() >= len(out):
        raise failure  # not because of some models
    barred[small.models[out]] = True
    return None


def _without(cells: Cells, barred: Mask) -> Cells:
    return _between(cells, ~barred)


def _between(cells: Cells, kept: Mask) -> Cells:
    """Return the cells between two of these models."""
    return cells if kept.all() else cells.where(kept[cells.model_a] & kept[cells.model_b])


def _diverged(cells: Cells, label: Indices, R: Floats) -> Mask:
    """Return the models whose scores diverge: those furthest from m-ELO's, if one is further away than `SURE`."""
    try:
        known = fit_m_elo(cells, label).R
    except (NoFiniteScoreError, NotConvergedError):
        known = np.zeros(len(R))
    moved = np.abs(R - _median_score(R, label) - (known - _median_score(known, label)))
    diverged: Mask = _beyond_the_gap(moved) & (moved.max() > SURE)
    return diverged


def _beyond_the_gap(distance: Floats) -> Mask:
    """Mark the largest of these distances: all beyond the widest gap between neighbours, of which the first is 0."""
    ascending = np.sort(distance)
    beyond: Mask = distance >= ascending[np.argmax(np.diff(ascending, prepend=0.0))]
    return beyond


def _median_score(R: Floats, label: Indices) -> Floats:
    """Return the median score of each model's component, shape (n_models,)."""
    middle = np.empty(len(R))
    for component in np.unique(label):
        middle[label == component] = np.median(R[label == component])
    return middle


def _solve(small: Compact, label: Indices, settings: LoopSettings, start: Start | None) -> FitResult:
    begin = None if start is None else find_begin(small, settings, start)
    if begin is not None:
        try:
            return fit_with_settings(small.cells, label, settings, begin)
        except RatingError:
            pass  # repeat from the default start
    try:
        return fit_with_settings(small.cells, label, settings, None)
    except NoFiniteMaximumError as error:
        raise NoFiniteMaximumError(small.annotators[error.annotators], error.word) from None


def _units(cells: Cells, fit: FitResult, settings: LoopSettings) -> tuple[Floats, Floats]:
    theta = fit.abilities
    if settings.method == "m-elo" or len(theta) == 0:
        return np.ones(cells.n_models), np.ones(len(theta))
    known = None if fit.observed is None else fit.observed.arrow.scale
    scale = known or find_scale(cells)
    models, annotators = scale.models, scale.annotators
    annotator_unit = typical_ability(theta, annotators)
    unit_of_group = np.ones(int(max(models.max(), annotators.max())) + 1)
    unit_of_group[annotators] = annotator_unit
    return unit_of_group[models], annotator_unit
