"""A fit of the counted votes, in the published unit, and its errors."""

import time
from contextlib import suppress
from dataclasses import replace

import numpy as np

from app.rating.arrays import Mask
from app.rating.errors import NoCommonRankingError, NoFiniteMaximumError, NotConvergedError, VotesError
from app.rating.exchange import anywhere, total
from app.rating.fitted import FitResult
from app.rating.model.law import ASSUMED_SPREAD, TYPES, Law
from app.rating.model.scores import MarginalFit, SearchStart, fit_scores
from app.rating.model.start import PRECISION
from app.rating.plain.joint import fit_joint
from app.rating.plain.likelihood import Likelihood
from app.rating.plain.m_elo import fit_m_elo
from app.rating.settings import LoopSettings
from app.rating.threads import one_blas_thread
from app.rating.uncertainty.covariance import Covariance, marginal_covariance
from app.rating.uncertainty.plain_covariance import plain_covariance
from app.rating.uncertainty.results import AnnotatorEstimates, Estimate, Start
from app.rating.votes.cells import Cells, Compact, compact, pool_annotators
from app.rating.votes.graph import find_components, find_identified
from app.rating.votes.prompts import PromptCells

MOST_RATED = 4_096  # models; a square matrix of them is 134 MB
LEAST_HONEST = 0.25  # share of the annotators; with fewer no common ranking is left to tell them apart by
ROUNDS = 6  # in which the signs of abilities, and the models that they give a score, agree


@one_blas_thread()
def fit_without_errors(cells: Cells, settings: LoopSettings, start: Start | None = None) -> Estimate:
    """Fit the settings' method to the models whose scores the votes identify; the mean ability of all annotators is 1.

    Parameters
    ----------
    start : earlier results, where the fit with abilities integrated out begins if they explain the votes

    Raises
    ------
    VotesError
        No votes, or votes on more than 4,096 models.
    NoFiniteMaximumError, NotConvergedError, NoCommonRankingError
    """
    if not anywhere(len(cells.n) > 0):
        raise VotesError("no votes to fit", "no-votes")
    began = time.perf_counter()
    pairs = pool_annotators(cells)
    components = find_components(pairs)
    if (models := int((components.label >= 0).sum())) > MOST_RATED:
        how = "leave some out (rate --where), or use Elo, which takes any number"
        detail = f"at most {MOST_RATED:,} models can be rated at once; the votes compare {models:,}: {how}"
        raise VotesError(detail, "too-many")
    identified = find_identified(pairs, components, np.ones(1))
    for round_ in range(1, cells.n_models + ROUNDS + 1):
        small = compact(cells.where(identified[cells.model_a] & identified[cells.model_b]), identified)
        fit, marginal = _fit(small, settings, start)
        if settings.method == "m-elo":
            break
        if marginal is not None:
            agreed = identified & ~_held_by_prior(marginal, small, cells.n_models)
            if not np.array_equal(agreed, identified):
                kept = cells.where(agreed[cells.model_a] & agreed[cells.model_b])
                agreed &= find_identified(kept, find_components(kept), np.ones(1))
        else:
            sign = np.ones(cells.n_annotators)
            sign[small.annotators] = fit.theta
            agreed = find_identified(cells, components, sign)
        if np.array_equal(agreed, identified):
            break
        identified = agreed & identified if round_ >= ROUNDS else agreed
    ability, unknown = np.full((2, cells.n_annotators), np.nan)
    if settings.method == "am-elo":
        ability[small.annotators] = fit.theta
    return Estimate(
        settings=settings, cells=cells, pairs=pairs, components=components, identified=identified, small=small,
        fit=fit, marginal=marginal, covariance=None,
        annotators=AnnotatorEstimates.without_rules(cells.votes_by_annotator(), ability, unknown),
        seconds={"fit": time.perf_counter() - began, "intervals": 0.0},
    )  # fmt: skip


def _held_by_prior(marginal: MarginalFit, small: Compact, n_models: int) -> Mask:
    """Mark models of whose scores the votes say less than their weak prior: only annotators not believed stop them."""
    held = np.zeros(n_models, dtype=bool)
    held[small.models] = np.diag(marginal.equations.information) < 2.0 * PRECISION
    return held


def _fit(small: Compact, settings: LoopSettings, start: Start | None) -> tuple[FitResult, MarginalFit | None]:
    """Fit the settings' method to models that have a finite score."""
    cells = small.cells
    if cells.n_models == 0:
        return FitResult.nothing(), None
    if settings.method == "m-elo":
        return fit_m_elo(cells), None
    if not settings.integrates_abilities:
        try:
            return fit_joint(cells), None
        except NoFiniteMaximumError as error:
            raise NoFiniteMaximumError(small.annotators[error.annotators], error.word) from None
    spread = ASSUMED_SPREAD if settings.prior_sd in ("estimated", None) else float(settings.prior_sd)
    found = None
    if start is not None:
        R = start.natural_scores(small.models)
        pairs = pool_annotators(cells)
        with np.errstate(over="ignore", invalid="ignore"):
            value = Likelihood(pairs).value(R, np.ones(1))
        if value < pairs.n_votes * np.log(2.0):  # else the votes are explained no better than by a coin
            law = Law.assumed(spread) if start.law is None else replace(start.law, before=spread)
            begin = SearchStart(R, law, np.ones(cells.n_annotators))
            with suppress(NotConvergedError):
                found = fit_scores(cells, influence_limit=settings.influence_limit, start=begin, spread=spread)
    if found is None:
        found = fit_scores(cells, influence_limit=settings.influence_limit, spread=spread)
    if (honest := float(found.law.shares[TYPES.index("honest")])) <= LEAST_HONEST:
        raise NoCommonRankingError(
            f"{honest:.0%} of the annotators follow a common ranking, at most {LEAST_HONEST:.0%}: there is none"
        )
    value = total(Likelihood(cells).value(found.R, found.ability))
    return FitResult(found.R, found.ability, -value, found.iterations), found


@one_blas_thread()
def add_errors(found: Estimate, prompts: PromptCells | None = None) -> Estimate:
    """Add the covariance of the published scores, and the abilities' standard errors, if the settings want intervals.

    Parameters
    ----------
    prompts : the votes with a prompt, with the estimate's indices; others are left out

    Raises
    ------
    NotConvergedError
        The fit is at a saddle point.
    """
    if prompts is not None:
        found = replace(found, prompts=prompts.among(found.small))
    if found.settings.interval == "none" or len(found.small.models) == 0:
        return found
    began = time.perf_counter()
    spread = _covariance(found)
    se = np.full(found.cells.n_annotators, np.nan)
    se[found.small.annotators] = spread.ability_se
    seconds = {**found.seconds, "intervals": time.perf_counter() - began}
    return replace(found, covariance=spread, annotators=replace(found.annotators, se=se), seconds=seconds)


def _covariance(found: Estimate) -> Covariance:
    settings, small, fit = found.settings, found.small, found.fit
    if found.marginal is not None:
        return marginal_covariance(
            small.cells, found.marginal, settings.interval, settings.influence_limit, found.prompts
        )
    component = found.components.label[small.models]
    return plain_covariance(
        small.cells, fit, component, settings.interval, has_abilities=found.has_abilities, prompts=found.prompts
    )
