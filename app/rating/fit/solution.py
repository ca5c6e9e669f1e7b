"""Fits the settings' method to compact cells: chooses the prior, subtracts the bias, handles saddle points."""

import math
from dataclasses import replace

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.errors import NoCommonRankingError, NotConvergedError, RatingError, SaddlePointError
from app.rating.fit.bias import correct_bias
from app.rating.fit.fit import APART, AS_GOOD, FEW, fit_am_elo, fit_m_elo, fit_m_elo_unchecked
from app.rating.fit.maxima import MOST_MODELS, MOST_VOTES, find_maxima
from app.rating.fit.observed import observe
from app.rating.fit.prior_spread import ASSUMED, DEFAULT, PriorSpread, fit_with_estimated_prior
from app.rating.fit.result import FitResult
from app.rating.fit.scale import find_scale
from app.rating.fit.weights import Weighted, first_abilities, scale_votes, weigh_abilities, weigh_votes
from app.rating.settings import LoopSettings
from app.rating.votes.cells import Cells
from app.rating.votes.compact import Compact, compact


def fit_with_settings(
    cells: Cells, component: Indices, settings: LoopSettings, start: tuple[Floats, Floats] | None
) -> FitResult:
    """Fit the settings' method to the compact cells of identified models.

    Raises
    ------
    NoFiniteMaximumError, NotConvergedError, NoCommonRankingError
    """
    if cells.n_models == 0:
        nothing, no_annotator = np.zeros(0), np.zeros(0, dtype=bool)
        return FitResult(nothing, nothing, no_annotator, 0.0, 0, no_annotator)
    if settings.method == "m-elo":
        return fit_m_elo(cells, component, start and start[0])
    weighted = _weigh(cells, component, settings)
    fit, sd, prior = _fit(cells, weighted, component, settings, start)
    if settings.seek_higher and sd is not None and cells.n_votes < MOST_VOTES and cells.n_models <= MOST_MODELS:
        maxima = find_maxima(fit.counted(cells), component, fit, prior_sd=sd, ability_cap=settings.ability_cap)
        fit = replace(maxima.best, weighted=weighted, rivals=maxima.rivals)
    try:
        return _published(component, fit, settings, sd, prior, cells)
    except SaddlePointError as saddle:
        if cells.n_annotators < FEW or find_scale(cells).number > 1:
            raise
        return _leave_saddle(saddle, cells, weighted, component, settings)


def _weigh(cells: Cells, component: Indices, settings: LoopSettings) -> Weighted | None:
    """Return the votes with the weights that the limit of influence gives them; None where all weigh 1."""
    if settings.influence_limit is None or settings.prior_sd is None:
        return None
    theta = first_abilities(cells, fit_m_elo_unchecked(cells, component).R, cap=settings.ability_cap)
    return weigh_votes(cells, weigh_abilities(theta), settings.influence_limit)


def _fit(
    cells: Cells,
    weighted: Weighted | None,
    component: Indices,
    settings: LoopSettings,
    start: tuple[Floats, Floats] | None,
) -> tuple[FitResult, float | None, PriorSpread | None]:
    """Fit am-ELO; return the fit, the prior's sd, and how it was estimated: from votes that all weigh 1."""
    cap, sd, prior = settings.ability_cap, settings.prior_sd, None
    if sd == "estimated":
        fit, prior = fit_with_estimated_prior(cells, component, ability_cap=cap, start=start)
        if weighted is None:
            return fit, prior.sd, prior
        sd, start = prior.sd, (fit.R, fit.theta)
    counted = cells if weighted is None else weighted.cells
    fit = fit_am_elo(counted, component, prior_sd=sd, ability_cap=cap, start=start)
    return replace(fit, weighted=weighted), sd, prior


def _leave_saddle(
    saddle: SaddlePointError, cells: Cells, weighted: Weighted | None, component: Indices, settings: LoopSettings
) -> FitResult:
    """Fit from both sides of a saddle point, and take the higher maximum.

    Raises
    ------
    SaddlePointError
        Both maxima are as good: the votes do not decide.
    """
    ends = []
    for side in (1.0, -1.0):
        start = saddle.R + side * saddle.direction, saddle.theta
        try:
            fit, sd, prior = _fit(cells, weighted, component, settings, start)
            fit = _published(component, fit, settings, sd, prior, cells)
        except (NotConvergedError, NoCommonRankingError):
            continue
        log_prior = 0.0 if sd is None else _log_prior(fit.theta, sd)
        ends.append((fit.log_likelihood + log_prior, fit))
    ends.sort(key=lambda end: end[0])
    if not ends:
        raise saddle
    (low, one), (high, other) = ends[0], ends[-1]
    if high - low < AS_GOOD and not np.allclose(one.R, other.R, atol=APART):
        raise saddle
    return other


def _log_prior(theta: Floats, sd: float) -> float:
    """Return the log density of the abilities up to a constant that does not depend on the sd."""
    return -float(np.sum((theta - 1.0) ** 2)) / (2.0 * sd**2) - len(theta) * math.log(sd)


def fit_groups_apart(cells: Cells, component: Indices, settings: LoopSettings) -> FitResult:
    """Fit each group of models and annotators that votes link by itself, where `fit_with_settings` fails.

    A small group without a stable maximum keeps abilities of 1, so that its scores are m-ELO's
    (`FitResult.undecided`). For example, of two annotators who contradict each other either may be the better one.

    Raises
    ------
    NotConvergedError, NoCommonRankingError
        A group of 20 annotators or more has no maximum; `SaddlePointError` where it has two that are as good.

    Notes
    -----
    The likelihood is a product over the groups, so the objective is the same. A prior to be estimated gets sd 1.
    Votes of undecided groups have the weight 1.
    """
    scale = find_scale(cells)
    sd, estimated = settings.prior_sd, settings.prior_sd == "estimated"
    prior_sd = ASSUMED if sd == "estimated" else sd
    one = replace(settings, prior_sd=prior_sd)
    R, theta = np.zeros(cells.n_models), np.ones(cells.n_annotators)
    at_cap, undecided = np.zeros((2, cells.n_annotators), dtype=bool)
    log_likelihood, iterations = 0.0, 0
    weight, by_ability = np.ones(len(cells.n)), np.ones(cells.n_annotators)
    for group in range(scale.number):
        inside = scale.annotators[cells.annotator] == group
        mine = compact(cells.where(inside))
        label = component[mine.models]
        try:
            fit = fit_with_settings(mine.cells, label, one, None)
        except (NotConvergedError, NoCommonRankingError) as failure:
            if len(mine.annotators) >= FEW:
                raise _widened(failure, mine, cells) from None
            fit = fit_m_elo_unchecked(mine.cells, label)
            undecided[mine.annotators] = True
        R[mine.models], theta[mine.annotators], at_cap[mine.annotators] = fit.R, fit.theta, fit.at_cap
        if fit.weighted is not None:
            weight[inside], by_ability[mine.annotators] = fit.weights(mine.cells), fit.weighted.by_ability
        log_likelihood, iterations = log_likelihood + fit.log_likelihood, max(iterations, fit.iterations)
    weighted = scale_votes(cells, weight, by_ability)
    whole = FitResult(R, theta, at_cap, log_likelihood, iterations, undecided, weighted=weighted)
    prior = DEFAULT if estimated else None
    return _published(component, whole, one, prior_sd, prior, cells)


def _widened(failure: NotConvergedError | NoCommonRankingError, mine: Compact, cells: Cells) -> RatingError:
    """Return a group's failure in the indices of all models and annotators."""
    if not isinstance(failure, SaddlePointError):
        return failure
    R, theta, direction = np.zeros(cells.n_models), np.ones(cells.n_annotators), np.zeros(cells.n_models)
    R[mine.models], theta[mine.annotators], direction[mine.models] = failure.R, failure.theta, failure.direction
    return SaddlePointError(R, theta, direction)


def _published(
    component: Indices,
    fit: FitResult,
    settings: LoopSettings,
    prior_sd: float | None,
    prior: PriorSpread | None,
    votes: Cells,
) -> FitResult:
    """Add what is published of a fit; `votes` are the fit's cells without their weights."""
    if prior_sd is None:  # the paper's estimator has no correction
        return fit
    observed = observe(fit.counted(votes), fit, component, prior_sd=prior_sd)
    if not settings.bias_correction:
        return replace(fit, prior_sd=prior_sd, prior=prior, observed=observed)
    corrected = correct_bias(fit, observed, votes, prior_sd=prior_sd, ability_cap=settings.ability_cap)
    return replace(fit, prior_sd=prior_sd, prior=prior, observed=observed, corrected=corrected)
