import time

import numpy as np

from app.rating.arrays import Floats
from app.rating.errors import VotesError
from app.rating.fit.arrow import Observed
from app.rating.fit.result import FitResult
from app.rating.fit.scale import find_scale, typical_ability
from app.rating.fit.solution import Start
from app.rating.fit.strategy import fit_votes
from app.rating.settings import LoopSettings
from app.rating.threads import one_blas_thread
from app.rating.uncertainty.covariance import Covariance, covariance
from app.rating.uncertainty.results import AnnotatorEstimates, Estimate, largest_unit
from app.rating.votes.cells import Cells
from app.rating.votes.compact import Compact


@one_blas_thread()
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
    if len(cells.n) == 0:
        raise VotesError("no votes to fit", "no-votes")
    began = time.perf_counter()
    fitted = fit_votes(cells, settings, start)
    small, (fit, observed) = fitted.small, fitted.solution
    label = fitted.components.label[small.models]
    unit, annotator_unit = _units(small.cells, fit, observed, settings)
    done = time.perf_counter()
    spread = None
    if settings.interval != "none" and len(small.models):
        spread = covariance(
            fit.counted(small.cells), fit, label, kind=settings.interval,
            prior_sd=fit.prior_sd, abilities=settings.method == "am-elo", observed=observed,
            published=(fit.scores, fit.abilities, annotator_unit),
        )  # fmt: skip
    seconds = {"fit": done - began, "intervals": time.perf_counter() - done}
    bounding = np.full(cells.n_annotators, largest_unit(annotator_unit))
    bounding[small.annotators] = fit.abilities
    return Estimate(
        settings=settings, cells=cells, pairs=fitted.pairs, components=fitted.components,
        identified=fitted.identified, small=small, fit=fit, observed=observed, covariance=spread, unit=unit,
        annotator_unit=annotator_unit, bounding=bounding,
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


def _units(cells: Cells, fit: FitResult, observed: Observed | None, settings: LoopSettings) -> tuple[Floats, Floats]:
    theta = fit.abilities
    if settings.method == "m-elo" or len(theta) == 0:
        return np.ones(cells.n_models), np.ones(len(theta))
    known = None if observed is None else observed.scale
    scale = known or find_scale(cells)
    models, annotators = scale.models, scale.annotators
    annotator_unit = typical_ability(theta, annotators)
    unit_of_group = np.ones(int(max(models.max(), annotators.max())) + 1)
    unit_of_group[annotators] = annotator_unit
    return unit_of_group[models], annotator_unit
