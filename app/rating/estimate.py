import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.rating.compact import Compact, compact
from app.rating.covariance import Covariance, covariance
from app.rating.errors import NoFiniteMaximumError, NotConvergedError, VotesError
from app.rating.fit import Fit, fit_am_elo, fit_m_elo
from app.rating.gauge import ELO_PER_NATURAL, typical_ability
from app.rating.graph import Components, find_components, find_cores
from app.rating.results import LoopSettings, Start
from app.rating.scale import find_scale
from app.rating.sums import Floats
from app.rating.threads import one_blas_thread
from app.rating.votes import Cells

IDENTIFICATION_ROUNDS = 10
RUNAWAY = 15.0  # natural units from the middle, 2,600 Elo points, in a fit that does not settle


@dataclass(frozen=True)
class Estimate:
    """One fit over the votes that count, on the caller's index spaces.

    Attributes
    ----------
    cells : the votes that count
    components : of their comparison graph
    core : models with a finite score, shape (n_models,)
    small : the cells between core models, renumbered; what `fit` and `covariance` are about
    unit : typical ability of each model's scale group, shape (small.models,); 1 for m-ELO
    annotator_unit : the same for each annotator of `small`
    has_abilities : False for m-ELO
    seconds : "fit" and "intervals"
    """

    cells: Cells
    components: Components
    core: NDArray[np.bool_]
    small: Compact
    fit: Fit
    covariance: Covariance | None
    unit: Floats
    annotator_unit: Floats
    has_abilities: bool
    seconds: dict[str, float]

    @property
    def typical(self) -> float:
        """Median ability of the largest scale group, what published abilities are divided by; 1 for m-ELO."""
        if len(self.annotator_unit) == 0:
            return 1.0
        units, size = np.unique(self.annotator_unit, return_counts=True)
        return float(units[np.argmax(size)])

    def abilities(self, n_annotators: int) -> Floats:
        """θ in the solver's units for everyone, the typical one where the fit has none, shape (n_annotators,)."""
        theta = np.full(n_annotators, self.typical)
        theta[self.small.annotators] = self.fit.theta
        return theta

    def scores(self, n_models: int) -> Floats:
        """R in the solver's units, NaN outside the core, shape (n_models,)."""
        R = np.full(n_models, np.nan)
        R[self.small.models] = self.fit.R
        return R


def estimate(cells: Cells, settings: LoopSettings, start: Start | None = None) -> Estimate:
    """Fit the settings' method to the models whose scores the votes identify, with its covariance.

    Which models these are depends on the signs of the abilities, and those on the fit: both are brought to agree,
    starting from positive abilities.

    Raises
    ------
    VotesError
        No votes.
    NoFiniteMaximumError, NotConvergedError, NoCommonRankingError
    """
    if len(cells.n) == 0:
        raise VotesError("no votes to fit")
    with one_blas_thread():
        return _estimate(cells, settings, start)


def _estimate(cells: Cells, settings: LoopSettings, start: Start | None) -> Estimate:
    began = time.perf_counter()
    components = find_components(cells)
    core, small, fit = _identify_and_fit(cells, components, settings, start)
    label = components.label[small.models]
    unit, annotator_unit = _units(small.cells, fit, settings)
    fitted = time.perf_counter()
    spread = None
    if settings.interval != "none" and len(small.models):
        spread = covariance(
            small.cells, fit, label, kind=settings.interval,
            prior_sd=settings.prior_sd, abilities=settings.method == "am-elo",
        )  # fmt: skip
    seconds = {"fit": fitted - began, "intervals": time.perf_counter() - fitted}
    has_abilities = settings.method == "am-elo"
    return Estimate(cells, components, core, small, fit, spread, unit, annotator_unit, has_abilities, seconds)


def _identify_and_fit(
    cells: Cells, components: Components, settings: LoopSettings, start: Start | None
) -> tuple[NDArray[np.bool_], Compact, Fit]:
    """Find the models that have a score, and fit them.

    Which they are depends on the signs of the abilities and those on the fit: both are brought to agree. A model whose
    only win (or loss) comes from an annotator whom the others contradict can still run off to infinity, that ability
    going to 0 at a bounded cost: such a model is barred, and the rest fitted again.
    """
    barred = np.zeros(cells.n_models, dtype=bool)
    core = find_cores(cells, components, np.ones(cells.n_annotators))
    for last in (*[False] * IDENTIFICATION_ROUNDS, True):
        small = compact(cells.where(core[cells.model_a] & core[cells.model_b]))
        try:
            fit = _fit(small, components.label[small.models], settings, start)
        except NotConvergedError as failure:
            runaway = np.abs(failure.R - _middle(failure.R, components.label[small.models])) > RUNAWAY
            if last or not runaway.any():
                raise
            barred[small.models[runaway]] = True
            agreed = core
        else:
            sign = np.ones(cells.n_annotators)
            sign[small.annotators] = fit.theta
            agreed = find_cores(cells.where(~barred[cells.model_a] & ~barred[cells.model_b]), components, sign)
            if np.array_equal(agreed, core):
                break
        if barred[agreed].any():
            rest = cells.where(~barred[cells.model_a] & ~barred[cells.model_b])
            agreed = find_cores(rest, components, np.ones(cells.n_annotators))
        core = agreed if not last else core & agreed
    return core, small, fit


def _middle(R: Floats, label: NDArray[np.int64]) -> Floats:
    """Median score of each model's component, shape (n_models,)."""
    middle = np.empty(len(R))
    for component in np.unique(label):
        middle[label == component] = np.median(R[label == component])
    return middle


def _fit(small: Compact, label: NDArray[np.int64], settings: LoopSettings, start: Start | None) -> Fit:
    if len(small.models) == 0:
        nothing = np.zeros(0)
        return Fit(nothing, nothing, np.zeros(0, dtype=bool), 0.0, 0)
    begin = None if start is None else _begin(small, start)
    if settings.method == "m-elo":
        return fit_m_elo(small.cells, label, begin and begin[0])
    try:
        return fit_am_elo(small.cells, label, prior_sd=settings.prior_sd, ability_cap=settings.ability_cap, start=begin)
    except NoFiniteMaximumError as error:
        raise NoFiniteMaximumError(small.annotators[error.annotators], error.word) from None


def _begin(small: Compact, start: Start) -> tuple[Floats, Floats]:
    """Earlier results in the solver's units; what they did not know begins as the average model or annotator."""
    score, ability = start.score[small.models], start.ability[small.annotators]
    middle = float(np.mean(score[np.isfinite(score)])) if np.isfinite(score).any() else 0.0
    R = np.where(np.isfinite(score), score - middle, 0.0) / (ELO_PER_NATURAL * start.median_ability)
    return R, np.where(np.isfinite(ability), ability, 1.0) * start.median_ability


def _units(cells: Cells, fit: Fit, settings: LoopSettings) -> tuple[Floats, Floats]:
    if settings.method == "m-elo" or len(fit.theta) == 0:
        return np.ones(len(fit.R)), np.ones(len(fit.theta))
    if settings.prior_sd is None:
        scale = find_scale(cells)
        models, annotators = scale.models, scale.annotators
    else:
        models, annotators = np.zeros(len(fit.R), dtype=np.int64), np.zeros(len(fit.theta), dtype=np.int64)
    annotator_unit = typical_ability(fit.theta, annotators)
    unit_of_group = np.ones(int(max(models.max(), annotators.max())) + 1)
    unit_of_group[annotators] = annotator_unit
    return unit_of_group[models], annotator_unit
