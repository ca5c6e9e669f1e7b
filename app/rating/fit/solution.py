"""The fit of models that have a finite score, from one start after another, and what is published of it."""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.errors import (
    NoCommonRankingError,
    NoFiniteMaximumError,
    NotConvergedError,
    RatingError,
    SaddlePointError,
)
from app.rating.fit.am_elo import APART, AS_GOOD, FEW, find_maximum
from app.rating.fit.arrow import Observed, observe
from app.rating.fit.bias import find_own
from app.rating.fit.likelihood import Curvature, Likelihood
from app.rating.fit.m_elo import fit_m_elo, fit_m_elo_unchecked
from app.rating.fit.prior_spread import ASSUMED, estimate_prior
from app.rating.fit.result import FitResult
from app.rating.fit.scale import ELO_PER_NATURAL, find_scale
from app.rating.fit.unit import LEAST_MEAN
from app.rating.fit.weights import FIRST_SD, first_abilities, scale_votes, weigh_abilities, weigh_votes
from app.rating.settings import LoopSettings
from app.rating.votes.cells import Cells
from app.rating.votes.compact import Compact


@dataclass(frozen=True)
class Start:
    """Published results of an earlier round, to start the next fit from; values that are not finite are unknown.

    Attributes
    ----------
    score : Elo points, any base, shape (n_models,)
    ability : published units, shape (n_annotators,)
    median_ability : what published abilities were divided by
    """

    score: Floats
    ability: Floats
    median_ability: float

    def natural_scores(self, models: Indices) -> Floats:
        """Return the scores of these models in natural units around 0, unknown ones at the mean of the others."""
        score = self.score[models] / ELO_PER_NATURAL
        known = np.isfinite(score)
        middle = float(score[known].mean()) if known.any() else 0.0
        natural: Floats = np.where(known, score - middle, 0.0)
        return natural


class Solution(NamedTuple):
    """A fit, and the information there where it was needed."""

    fit: FitResult
    observed: Observed | None = None


def fit_models(small: Compact, component: Indices, settings: LoopSettings, start: Start | None = None) -> Solution:
    """Fit the settings' method to models that have a finite score: from earlier results, or from the default start.

    Parameters
    ----------
    component : of each model, shape (n_models,)
    start : used where it helps (`app.rating.fit.solution`); if the fit fails from it, it is repeated from the default

    Raises
    ------
    NoFiniteMaximumError, NotConvergedError, NoCommonRankingError
    """
    begin = None if start is None else find_begin(small, settings, start)
    if begin is not None:
        try:
            return _fit_from(begin, small.cells, component, settings)
        except RatingError:
            pass  # repeat from the default start
    try:
        return _fit_from(None, small.cells, component, settings)
    except SaddlePointError as saddle:
        if small.cells.n_annotators < FEW or find_scale(small.cells).number > 1:
            raise
        return _leave_saddle(saddle, small.cells, component, settings)
    except NoFiniteMaximumError as error:
        raise NoFiniteMaximumError(small.annotators[error.annotators], error.word) from None


def _fit_from(
    start: tuple[Floats, Floats] | None, cells: Cells, component: Indices, settings: LoopSettings
) -> Solution:
    """Fit from one start, the default if None."""
    if cells.n_models == 0:
        return Solution(FitResult.nothing())
    if settings.method == "m-elo":
        return Solution(fit_m_elo(cells, component, start and start[0]))
    weighted, prior, sd = None, None, settings.prior_sd
    if sd is not None and settings.influence_limit is None and cells.trust is not None:
        weighted = scale_votes(cells, cells.trust, np.ones(cells.n_annotators))
    if sd is not None and (sd == "estimated" or settings.influence_limit is not None):
        R, theta = first_abilities(cells, fit_m_elo_unchecked(cells, component).R)
        if sd == "estimated":
            prior = estimate_prior(cells, R, theta)
            sd = prior.sd
        if sd != FIRST_SD:
            theta = first_abilities(cells, R, sd=sd)[1]
        if settings.influence_limit is not None:
            weighted = weigh_votes(cells, weigh_abilities(theta), settings.influence_limit)
    counted = cells if weighted is None else weighted.cells
    fit, point = find_maximum(counted, component, prior_sd=sd, ability_cap=None, start=start)
    fit = replace(fit, weighted=weighted, prior_sd=sd, prior=prior)
    return publish(fit, point, cells, component)


def _leave_saddle(saddle: SaddlePointError, cells: Cells, component: Indices, settings: LoopSettings) -> Solution:
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
            solution = _fit_from(start, cells, component, settings)
        except (NotConvergedError, NoCommonRankingError):
            continue
        ends.append((solution.fit.log_likelihood + _log_prior(solution.fit), solution))
    ends.sort(key=lambda end: end[0])
    if not ends:
        raise saddle
    (low, one), (high, other) = ends[0], ends[-1]
    if high - low < AS_GOOD and not np.allclose(one.fit.R, other.fit.R, atol=APART):
        raise saddle
    return other


def _log_prior(fit: FitResult) -> float:
    """Return the log density of the abilities up to a constant that does not depend on the sd; 0 without a prior."""
    theta, sd = fit.theta, fit.prior_sd
    return 0.0 if sd is None else -float(np.sum((theta - 1.0) ** 2)) / (2.0 * sd**2) - len(theta) * math.log(sd)


def publish(fit: FitResult, point: Curvature | None, votes: Cells, component: Indices) -> Solution:
    """Add what is published of a fit; `votes` are the fit's cells without their weights, `point` its derivatives."""
    if fit.prior_sd is None:  # the paper's estimator has no correction
        return Solution(fit)
    observed = observe(fit.counted(votes), fit, component, prior_sd=fit.prior_sd, point=point)
    own = find_own(fit.counted(votes), fit.R, prior_sd=fit.prior_sd, bias_correction=False, start=fit.theta)
    return Solution(replace(fit, own=own), observed)


def find_begin(small: Compact, settings: LoopSettings, start: Start) -> tuple[Floats, Floats] | None:
    """Return scores and abilities in the solver's units to start from; None where the default start is better.

    The default is better for m-ELO, which has one maximum and finds it quickly; with fewer than 20 annotators; and
    where the earlier results explain the votes no better than a coin. Then they are corrupt or of other votes, and the
    fit from them could reach another maximum.

    Parameters
    ----------
    small : the votes between identified models
    start : in the original indices; unknown scores start at the mean, unknown abilities at the typical one, and a
        median ability that is not a positive number counts as 1
    """
    if settings.method == "m-elo" or len(small.annotators) < FEW:
        return None
    R, theta = _in_solvers_units(start, small)
    if not float(np.mean(theta)) > LEAST_MEAN:
        return None
    sd = ASSUMED if settings.prior_sd == "estimated" else settings.prior_sd
    with np.errstate(over="ignore", invalid="ignore"):
        value = Likelihood(small.cells, sd).value(R, theta)
    return (R, theta) if value < small.cells.n_votes * math.log(2.0) else None


def _in_solvers_units(start: Start, small: Compact) -> tuple[Floats, Floats]:
    median = start.median_ability if np.isfinite(start.median_ability) and start.median_ability > 0 else 1.0
    score, ability = start.score[small.models], start.ability[small.annotators]
    with np.errstate(over="ignore", invalid="ignore"):
        known = np.isfinite(score)
        middle = float(np.mean(score[known])) if known.any() else 0.0
        R = np.where(known, score - middle, 0.0) / (ELO_PER_NATURAL * median)
        return R, np.where(np.isfinite(ability), ability, 1.0) * median
