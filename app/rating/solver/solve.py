"""From compact cells to a fit that stands: method, prior in force, bias taken out, what the votes leave open."""

import math
from dataclasses import dataclass, replace

import numpy as np

from app.rating.data.arrays import Floats, Indices
from app.rating.data.compact import Compact, compact
from app.rating.data.votes import Cells
from app.rating.errors import NoCommonRankingError, NotConvergedError, RatingError, SaddlePointError
from app.rating.settings import LoopSettings
from app.rating.solver.correction import correct_bias
from app.rating.solver.fit import LARGEST_UNDECIDED, Fit, climb_m_elo, fit_am_elo, fit_m_elo
from app.rating.solver.observed import Observed, observe
from app.rating.solver.prior_spread import ASSUMED, DEFAULT, PriorSpread, fit_with_estimated_prior
from app.rating.solver.scale import find_scale

SAME = 1e-6  # natural units
TOLD_APART = 1e-3  # natural log of the likelihood, below which one maximum is as good as another


@dataclass(frozen=True)
class Solution:
    """A fit and what is published of it.

    Attributes
    ----------
    fit : the maximum
    R, theta : the fit's, without their first-order bias where the settings ask for that
    prior_sd : of the prior in force; None for the plain estimator and for m-ELO
    prior : how that was estimated; None where it was given
    observed : the information at the fit; None where nothing asked for it
    """

    fit: Fit
    R: Floats
    theta: Floats
    prior_sd: float | None
    prior: PriorSpread | None = None
    observed: Observed | None = None


def solve(cells: Cells, component: Indices, settings: LoopSettings, start: tuple[Floats, Floats] | None) -> Solution:
    """Fit the settings' method to compact cells between models that have a score.

    Raises
    ------
    NoFiniteMaximumError, NotConvergedError, NoCommonRankingError
    """
    if cells.n_models == 0:
        nothing, nobody = np.zeros(0), np.zeros(0, dtype=bool)
        return Solution(Fit(nothing, nothing, nobody, 0.0, 0, nobody), nothing, nothing, None)
    if settings.method == "m-elo":
        fit = fit_m_elo(cells, component, start and start[0])
        return Solution(fit, fit.R, fit.theta, None)
    fit, sd, prior = _fit(cells, component, settings, start)
    try:
        return _published(cells, component, fit, settings, sd, prior)
    except SaddlePointError as saddle:
        if cells.n_annotators < LARGEST_UNDECIDED or find_scale(cells).number > 1:
            raise
        return _leave(saddle, cells, component, settings)


def _fit(
    cells: Cells, component: Indices, settings: LoopSettings, start: tuple[Floats, Floats] | None
) -> tuple[Fit, float | None, PriorSpread | None]:
    """Fit am-ELO; the prior's sd that is in force, and how it was estimated."""
    cap, sd = settings.ability_cap, settings.prior_sd
    if sd != "estimated":
        return fit_am_elo(cells, component, prior_sd=sd, ability_cap=cap, start=start), sd, None
    fit, prior = fit_with_estimated_prior(cells, component, ability_cap=cap, start=start)
    return fit, prior.sd, prior


def _leave(saddle: SaddlePointError, cells: Cells, component: Indices, settings: LoopSettings) -> Solution:
    """Climb from a saddle point on both sides, and take the higher end.

    Raises
    ------
    SaddlePointError
        No side is higher: the votes do not tell.
    """
    ends = []
    for side in (1.0, -1.0):
        try:
            fit, sd, prior = _fit(cells, component, settings, (saddle.R + side * saddle.direction, saddle.theta))
            solution = _published(cells, component, fit, settings, sd, prior)
        except (NotConvergedError, NoCommonRankingError):
            continue
        log_prior = 0.0 if sd is None else _log_prior(fit.theta, sd)
        ends.append((fit.log_likelihood + log_prior, solution))
    ends.sort(key=lambda end: end[0])
    if not ends:
        raise saddle
    (low, one), (high, other) = ends[0], ends[-1]
    if high - low < TOLD_APART and not np.allclose(one.fit.R, other.fit.R, atol=SAME):
        raise saddle
    return other


def _log_prior(theta: Floats, sd: float) -> float:
    """Log density of the abilities but for a constant: the sd is in it, as it may differ from fit to fit."""
    return -float(np.sum((theta - 1.0) ** 2)) / (2.0 * sd**2) - len(theta) * math.log(sd)


def solve_apart(cells: Cells, component: Indices, settings: LoopSettings) -> Solution:
    """Fit every group of models and annotators that votes link by itself, for votes that `solve` finds no answer for.

    A small group without a stable maximum (two annotators who contradict each other, say, of whom either may be the
    better one) keeps abilities of 1, so that its scores are m-ELO's: `Fit.undecided`.

    Raises
    ------
    NotConvergedError, NoCommonRankingError
        A group of 20 annotators or more has no answer; `SaddlePointError` where it has two that are as good.

    Notes
    -----
    The likelihood of such groups is a product, so this is no other objective. A prior that was to be estimated is
    taken to have sd 1.
    """
    scale = find_scale(cells)
    sd, estimated = settings.prior_sd, settings.prior_sd == "estimated"
    prior_sd = ASSUMED if sd == "estimated" else sd
    one = replace(settings, prior_sd=prior_sd)
    R, theta = np.zeros(cells.n_models), np.ones(cells.n_annotators)
    at_cap, undecided = np.zeros((2, cells.n_annotators), dtype=bool)
    log_likelihood, iterations = 0.0, 0
    for group in range(scale.number):
        mine = compact(cells.where(scale.annotators[cells.annotator] == group))
        label = component[mine.models]
        try:
            fit = solve(mine.cells, label, one, None).fit
        except (NotConvergedError, NoCommonRankingError) as failure:
            if len(mine.annotators) >= LARGEST_UNDECIDED:
                raise _widened(failure, mine, cells) from None
            fit = climb_m_elo(mine.cells, label)
            undecided[mine.annotators] = True
        R[mine.models], theta[mine.annotators], at_cap[mine.annotators] = fit.R, fit.theta, fit.at_cap
        log_likelihood, iterations = log_likelihood + fit.log_likelihood, max(iterations, fit.iterations)
    whole = Fit(R, theta, at_cap, log_likelihood, iterations, undecided)
    prior = DEFAULT if estimated else None
    return _published(cells, component, whole, one, prior_sd, prior)


def _widened(failure: NotConvergedError | NoCommonRankingError, mine: Compact, cells: Cells) -> RatingError:
    """Tell what failed in a group of the models of all of them."""
    if not isinstance(failure, SaddlePointError):
        return failure
    R, theta, direction = np.zeros(cells.n_models), np.ones(cells.n_annotators), np.zeros(cells.n_models)
    R[mine.models], theta[mine.annotators], direction[mine.models] = failure.R, failure.theta, failure.direction
    return SaddlePointError(R, theta, direction)


def _published(
    cells: Cells,
    component: Indices,
    fit: Fit,
    settings: LoopSettings,
    prior_sd: float | None,
    prior: PriorSpread | None,
) -> Solution:
    if prior_sd is None:  # the paper's estimator is left as it is
        return Solution(fit, fit.R, fit.theta, None)
    observed = observe(cells, fit, component, prior_sd=prior_sd)
    if not settings.bias_correction:
        return Solution(fit, fit.R, fit.theta, prior_sd, prior, observed)
    R, theta = correct_bias(fit, observed, prior_sd=prior_sd, ability_cap=settings.ability_cap)
    return Solution(fit, R, theta, prior_sd, prior, observed)
