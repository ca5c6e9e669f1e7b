"""What a round says of the votes: the estimate, what is published of it, and who is flagged."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from app.rating.arrays import sum_by
from app.rating.errors import RatingNotice
from app.rating.fitted import FitResult
from app.rating.settings import LoopSettings
from app.rating.types.evidence import Evidence
from app.rating.uncertainty.covariance import Covariance
from app.rating.uncertainty.estimate import add_errors, fit_without_errors
from app.rating.uncertainty.models import make_model_estimates
from app.rating.uncertainty.notices import find_notices
from app.rating.uncertainty.results import Diagnostics, Estimate, ModelEstimates, Start
from app.rating.votes.cells import Cells, pool_annotators
from app.rating.votes.graph import Components
from app.rating.votes.prompts import PromptCells


@dataclass(frozen=True, kw_only=True)
class Rating(Estimate):
    """An estimate, and what is published of it; `annotators` are as the rules see them.

    Attributes
    ----------
    models : in Elo points, with intervals and ranks
    diagnostics : how the fit went, with its notices
    evidence : what the tests say of every annotator past δ; None where no test was made
    """

    models: ModelEstimates
    diagnostics: Diagnostics
    evidence: Evidence | None = None

    def with_notice(self, notice: RatingNotice) -> "Rating":
        """Return the rating with one more notice."""
        warnings = (*self.diagnostics.warnings, notice)
        return replace(self, diagnostics=replace(self.diagnostics, warnings=warnings))


def compose(whole: Rating, cells: Cells, fit: FitResult, covariance: Covariance | None, **changed: Any) -> Rating:
    """Return the leaderboard of other scores and errors, with the counts of these votes and the rest of a rating.

    Parameters
    ----------
    fit : scores, in natural units, of the models in `small`
    changed : other fields of the estimate that change, such as the components, of which those with votes are kept
    """
    pairs = pool_annotators(cells)
    found = replace(whole, cells=cells, pairs=pairs, fit=fit, covariance=covariance, **changed)
    found = replace(found, components=_with_votes(found.components, pairs))
    return replace(found, models=make_model_estimates(found))


def _with_votes(components: Components, pairs: Cells) -> Components:
    """Return the components, those without a vote left out, in the order of their votes."""
    votes = sum_by(components.label[pairs.model_a], pairs.n, components.number)
    order = np.argsort(-votes, kind="stable")[: np.count_nonzero(votes)]
    place = np.full(components.number + 1, -1)
    place[order] = np.arange(len(order))
    return components._replace(label=place[components.label], number=len(order))


def estimate(
    cells: Cells, settings: LoopSettings, start: Start | None = None, *, prompts: PromptCells | None = None
) -> Rating:
    """Fit the settings' method outside the loop: all annotators count, and no rule sees them.

    Parameters
    ----------
    prompts : the votes with a prompt; intervals allow for what votes on the same one have in common

    Raises
    ------
    VotesError
        As `fit_without_errors`, or the anchor model has no score.
    NoFiniteMaximumError, NotConvergedError, NoCommonRankingError
    """
    return publish(add_errors(fit_without_errors(cells, settings, start), prompts))


def publish(found: Estimate, evidence: Evidence | None = None, excluded_share: float = 0.0, **changed: Any) -> Rating:
    """Return what is published of an estimate.

    Parameters
    ----------
    excluded_share : share of the votes past δ whose annotators are excluded (or would be, where the policy only flags)
    changed : fields of the estimate that the rules change

    Raises
    ------
    VotesError
        The anchor model has no score.
    """
    found = replace(found, **changed)
    models, diagnostics = make_model_estimates(found), _diagnose(found, excluded_share)
    same = {one.name: getattr(found, one.name) for one in fields(Estimate)}  # of a rating too
    return Rating(**same, models=models, diagnostics=diagnostics, evidence=evidence)


def _diagnose(found: Estimate, excluded_share: float) -> Diagnostics:
    fit, spread = found.fit, None if found.marginal is None else found.marginal.law.spread
    return Diagnostics(
        log_likelihood=fit.log_likelihood,
        iterations=fit.iterations,
        converged=True,  # else the fit raises NotConvergedError
        components=found.components.number,
        interval="none" if found.covariance is None else found.covariance.kind,
        median_ability=1.0,
        published_cap=None,
        prior_sd=spread,
        ability_spread=spread,
        ability_spread_se=None,
        excluded_share=excluded_share,
        prompts=None if found.prompts is None else found.prompts.number,
        prompt_share=None if found.prompts is None or found.covariance is None else found.covariance.prompt_share,
        seconds=found.seconds,
        warnings=find_notices(found),
    )
