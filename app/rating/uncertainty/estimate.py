"""A fit of the counted votes, in the published unit, and its errors."""

import time
from dataclasses import replace

import numpy as np

from app.rating.arrays import Floats, Mask
from app.rating.errors import NoCommonRankingError, VotesError
from app.rating.fit.likelihood import Likelihood
from app.rating.fit.result import FitResult
from app.rating.fit.scale import Scale, find_scale, one_group
from app.rating.fit.solution import Start
from app.rating.fit.strategy import MOST_RATED, fit_votes
from app.rating.fit.unit import Unit, mean_unit, refuse_low, solvers_unit
from app.rating.model.law import ASSUMED_SPREAD, TYPES, Law
from app.rating.model.scores import Start as SearchStart
from app.rating.model.scores import fit_scores
from app.rating.settings import LoopSettings
from app.rating.threads import one_blas_thread
from app.rating.uncertainty.covariance import covariance
from app.rating.uncertainty.marginal import marginal_covariance
from app.rating.uncertainty.profile import profile_scores
from app.rating.uncertainty.results import AnnotatorEstimates, Estimate
from app.rating.votes.cells import Cells
from app.rating.votes.compact import compact, pool_annotators
from app.rating.votes.graph import find_components, find_identified

LEAST_HONEST = 0.25  # share of the annotators; with fewer no common ranking is left to tell them apart by


def fit_with_errors(cells: Cells, settings: LoopSettings, start: Start | None = None) -> Estimate:
    """Fit the settings' method to the models whose scores the votes identify (`fit_votes`), with its covariance.

    Parameters
    ----------
    start : earlier results, used where they help (`app.rating.fit.solution`); if the fit fails from them, it is
        repeated from the default start

    Raises
    ------
    VotesError
        No votes, or votes on more than 4,096 models.
    NoFiniteMaximumError, NotConvergedError, NoCommonRankingError
    """
    found = fit_without_errors(cells, settings, start)
    return add_errors(count_annotators(found, np.ones(cells.n_annotators, dtype=bool)))


@one_blas_thread()
def fit_without_errors(cells: Cells, settings: LoopSettings, start: Start | None = None) -> Estimate:
    """Fit as `fit_with_errors`, in the solver's units, without errors.

    For rules that say who counts: annotators who do not count hardly move the typical ability, which is 1 here.
    """
    if len(cells.n) == 0:
        raise VotesError("no votes to fit", "no-votes")
    if settings.integrates_abilities:
        return _integrate_abilities(cells, settings, start)
    began = time.perf_counter()
    fitted = fit_votes(cells, settings, start)
    small, (fit, observed) = fitted.small, fitted.solution
    groups = one_group(small.cells.n_models, small.cells.n_annotators)
    if settings.method == "am-elo":
        groups = find_scale(small.cells) if observed is None or observed.scale is None else observed.scale
        _refuse_low_medians(fit.abilities, groups)
    unit = solvers_unit(groups)
    unknown = np.full(cells.n_annotators, np.nan)
    found = Estimate(
        settings=settings, cells=cells, pairs=fitted.pairs, components=fitted.components,
        identified=fitted.identified, small=small, fit=fit, observed=observed, covariance=None, published_unit=unit,
        bounding=unknown, annotators=AnnotatorEstimates.without_rules(cells.votes_by_annotator(), unknown, unknown),
        seconds={"fit": time.perf_counter() - began, "intervals": 0.0},
    )  # fmt: skip
    return _in_unit(found, unit)


def _integrate_abilities(cells: Cells, settings: LoopSettings, start: Start | None) -> Estimate:
    """Fit the model of votes with abilities integrated out, to the models whose scores the votes identify."""
    began = time.perf_counter()
    pairs = pool_annotators(cells)
    components = find_components(pairs)
    if (models := int((components.label >= 0).sum())) > MOST_RATED:
        detail = f"at most {MOST_RATED:,} models can be rated at once; the votes compare {models:,}"
        raise VotesError(detail, "too-many")
    identified = find_identified(pairs, components, np.ones(1))
    small = compact(cells.where(identified[cells.model_a] & identified[cells.model_b]), identified)
    marginal, fit = None, FitResult.nothing()
    if len(small.models):
        spread = ASSUMED_SPREAD if settings.prior_sd in ("estimated", None) else float(settings.prior_sd)
        begin = None
        if start is not None:
            R = start.natural_scores(small.models)
            begin = SearchStart(R, Law.assumed(spread), np.ones(len(small.annotators)))
        marginal = fit_scores(small.cells, influence_limit=settings.influence_limit, start=begin, spread=spread)
        _refuse_few_honest(marginal.law)
        theta, nobody = marginal.ability, np.zeros(len(small.annotators), dtype=bool)
        log_likelihood = -Likelihood(small.cells, None).value(marginal.R, theta)
        fit = FitResult(marginal.R, theta, nobody, log_likelihood, marginal.iterations, nobody, marginal.law.spread)
    unit = solvers_unit(one_group(len(small.models), len(small.annotators)))
    ability, bounding = np.full(cells.n_annotators, np.nan), np.ones(cells.n_annotators)
    ability[small.annotators] = bounding[small.annotators] = fit.theta
    return Estimate(
        settings=settings, cells=cells, pairs=pairs, components=components, identified=identified, small=small,
        fit=fit, observed=None, marginal=marginal, covariance=None, published_unit=unit, bounding=bounding,
        annotators=AnnotatorEstimates.without_rules(
            cells.votes_by_annotator(), ability, np.full(cells.n_annotators, np.nan)
        ),
        seconds={"fit": time.perf_counter() - began, "intervals": 0.0},
    )  # fmt: skip


def _refuse_few_honest(law: Law) -> None:
    """Raise NoCommonRankingError where too few annotators follow a common ranking to say which one it is."""
    honest = float(law.shares[TYPES.index("honest")])
    if honest <= LEAST_HONEST:
        raise NoCommonRankingError(
            f"{honest:.0%} of the annotators follow a common ranking, at most {LEAST_HONEST:.0%}: there is none"
        )


def count_annotators(found: Estimate, counts: Mask) -> Estimate:
    """Publish an estimate without errors in units of the mean of these annotators, `counts` of shape (n_annotators,).

    Raises
    ------
    NoCommonRankingError
        The mean is at or below 0.1 of the typical ability.
    """
    if not found.has_abilities or found.marginal is not None:
        return found
    return _in_unit(found, mean_unit(found.fit, found.published_unit.scale, counts[found.small.annotators]))


@one_blas_thread()
def add_errors(found: Estimate) -> Estimate:
    """Add the covariance of the published scores, and the abilities' standard errors, if the settings want intervals.

    Raises
    ------
    NotConvergedError
        The fit is at a saddle point.
    """
    settings, small, fit = found.settings, found.small, found.fit
    if settings.interval == "none" or len(small.models) == 0:
        return found
    began = time.perf_counter()
    component = found.components.label[small.models]
    if found.marginal is not None:
        spread = marginal_covariance(small.cells, found.marginal, settings.interval, settings.influence_limit)
    else:
        spread = covariance(
            fit.counted(small.cells), fit, component, kind=settings.interval,
            prior_sd=fit.prior_sd, abilities=found.has_abilities, observed=found.observed, unit=found.published_unit,
        )  # fmt: skip
    if spread.kind == "profile":
        profile = profile_scores(small.cells, fit, component, found.published_unit, spread, settings.confidence)
        spread = replace(spread, profile=profile)
    se = np.full(found.cells.n_annotators, np.nan)
    se[small.annotators] = spread.ability_se
    seconds = {**found.seconds, "intervals": time.perf_counter() - began}
    return replace(found, covariance=spread, annotators=replace(found.annotators, se=se), seconds=seconds)


def _in_unit(found: Estimate, unit: Unit) -> Estimate:
    """Return an estimate with the abilities in this unit."""
    small, theta = found.small.annotators, found.fit.abilities
    ability, bounding = np.full(found.cells.n_annotators, np.nan), np.full(found.cells.n_annotators, unit.of_most)
    bounding[small] = theta
    if found.has_abilities:
        ability[small] = theta / unit.of_annotators
    annotators = replace(found.annotators, ability=ability)
    return replace(found, published_unit=unit, bounding=bounding, annotators=annotators)


def _refuse_low_medians(theta: Floats, groups: Scale) -> None:
    for group in range(groups.number):
        members = theta[groups.annotators == group]
        if len(members):
            refuse_low(float(np.median(members)))
