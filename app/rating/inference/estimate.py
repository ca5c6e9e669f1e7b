import time
from dataclasses import dataclass

import numpy as np

from app.rating.data.arrays import Floats, Indices, Mask
from app.rating.data.compact import Compact, compact, pool_annotators
from app.rating.data.graph import Components, find_components, find_cores
from app.rating.data.threads import one_blas_thread
from app.rating.data.votes import Cells
from app.rating.errors import (
    NoFiniteMaximumError,
    NoFiniteScoreError,
    NotConvergedError,
    RatingError,
    SaddlePointError,
    VotesError,
)
from app.rating.inference.covariance import Covariance, covariance
from app.rating.settings import LoopSettings
from app.rating.solver.fit import fit_m_elo
from app.rating.solver.gauge import ELO_PER_NATURAL, typical_ability
from app.rating.solver.scale import find_scale
from app.rating.solver.solve import Solution, solve, solve_apart
from app.rating.solver.warm_start import Start, find_begin

IDENTIFICATION_ROUNDS = 6  # five are the most that thousands of small worlds needed, but for those that never end
RUNAWAY = 15.0  # natural units from the middle, 2,600 Elo points, in a fit that does not settle
OPEN = 0.5  # of the most that a score moves along the direction that is left open
FURTHER = 3.0  # times as far from the middle as m-ELO has it, of a model that m-ELO has further out than most


@dataclass(frozen=True)
class Estimate:
    """One fit over the votes that count, on the caller's index spaces.

    Attributes
    ----------
    cells : the votes that count
    pairs : their pair table
    components : of their comparison graph
    core : models with a finite score, shape (n_models,)
    small : the cells between core models, renumbered; what `solution` and `covariance` are about
    solution : the fit, and its scores and abilities as published, bias taken out
    unit : typical ability of each model's scale group, shape (small.models,); 1 for m-ELO
    annotator_unit : the same for each annotator of `small`
    has_abilities : False for m-ELO
    seconds : "fit" and "intervals"
    """

    cells: Cells
    pairs: Cells
    components: Components
    core: Mask
    small: Compact
    solution: Solution
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
        theta[self.small.annotators] = self.solution.theta
        return theta

    def scores(self, n_models: int) -> Floats:
        """R in the solver's units, NaN outside the core, shape (n_models,)."""
        R = np.full(n_models, np.nan)
        R[self.small.models] = self.solution.R
        return R

    @property
    def optimum(self) -> Start:
        """Where the solver stood, as a start."""
        score, ability = np.full(self.cells.n_models, np.nan), np.full(self.cells.n_annotators, np.nan)
        score[self.small.models] = self.solution.fit.R * ELO_PER_NATURAL * self.typical
        if self.has_abilities:
            ability[self.small.annotators] = self.solution.fit.theta / self.typical
        return Start(score, ability, self.typical)


def estimate(cells: Cells, settings: LoopSettings, start: Start | None = None) -> Estimate:
    """Fit the settings' method to the models whose scores the votes identify, with its covariance.

    Which models these are depends on the signs of the abilities, and those on the fit: both are brought to agree,
    starting from positive abilities.

    Parameters
    ----------
    start : where to begin, if it is worth it (`app.rating.solver.warm_start`); where that leads nowhere, the fit
        starts again from the default

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
    pairs = pool_annotators(cells)
    components = find_components(pairs)
    core, small, solution = _identify_and_solve(cells, pairs, components, settings, start)
    label = components.label[small.models]
    unit, annotator_unit = _units(small.cells, solution, settings)
    fitted = time.perf_counter()
    spread = None
    if settings.interval != "none" and len(small.models):
        spread = covariance(
            small.cells, solution.fit, label, kind=settings.interval,
            prior_sd=solution.prior_sd, abilities=settings.method == "am-elo", observed=solution.observed,
        )  # fmt: skip
    seconds = {"fit": fitted - began, "intervals": time.perf_counter() - fitted}
    has_abilities = settings.method == "am-elo"
    return Estimate(
        cells, pairs, components, core, small, solution, spread, unit, annotator_unit, has_abilities, seconds
    )


def _identify_and_solve(
    cells: Cells, pairs: Cells, components: Components, settings: LoopSettings, start: Start | None
) -> tuple[Mask, Compact, Solution]:
    """Find the models that have a score, and fit them.

    Which they are depends on the signs of the abilities and those on the fit: both are brought to agree. A model whose
    only win (or loss) comes from an annotator whom the others contradict can still run off to infinity, that ability
    going to 0 at a bounded cost: such a model is barred, and the rest fitted again. So is one that a crowd leaves open,
    its few judges contradicting each other so that believing either is as good, and, where signs and models go on
    chasing each other, whichever model's score comes and goes.
    """
    barred = np.zeros(cells.n_models, dtype=bool)
    core = find_cores(pairs, components, np.ones(1))
    rounds = 0
    while True:
        rounds += 1
        small = compact(_between(cells, core), core)
        label = components.label[small.models]
        try:
            solution = _solve(small, label, settings, start)
        except NotConvergedError as failure:
            if settings.method == "m-elo":
                raise  # concave, and with a maximum: whatever went wrong, it is not a score without end
            out = _runaway(small.cells, label, failure.R)
            if not out.any() and settings.prior_sd is not None:
                try:
                    solution = solve_apart(small.cells, label, settings)
                except SaddlePointError as saddle:
                    out = np.abs(saddle.direction) > OPEN
            if out.any():
                barred[small.models[out]] = True
                core = find_cores(_without(pairs, barred), components, np.ones(1))
                continue
            if settings.prior_sd is None:
                raise
        sign = np.ones(cells.n_annotators)
        sign[small.annotators] = solution.fit.theta
        agreed = find_cores(_without(cells, barred), components, sign)
        if np.array_equal(agreed, core):
            return core, small, solution
        if rounds >= IDENTIFICATION_ROUNDS:
            barred |= core & ~agreed
        core = agreed


def _without(cells: Cells, barred: Mask) -> Cells:
    return _between(cells, ~barred)


def _between(cells: Cells, kept: Mask) -> Cells:
    """Return the cells between two of these models."""
    return cells if kept.all() else cells.where(kept[cells.model_a] & kept[cells.model_b])


def _runaway(cells: Cells, label: Indices, R: Floats) -> Mask:
    """Tell models that were running off to infinity, shape (n_models,), from those that are far from the others.

    m-ELO, on the same votes, knows the latter: its scores have an end wherever each of these models can be reached.
    """
    try:
        known = fit_m_elo(cells, label).R
    except (NoFiniteScoreError, NotConvergedError):
        known = np.zeros(len(R))
    distance, usual = np.abs(R - _middle(R, label)), np.abs(known - _middle(known, label))
    far: Mask = distance > np.maximum(RUNAWAY, FURTHER * usual)
    return far


def _middle(R: Floats, label: Indices) -> Floats:
    """Median score of each model's component, shape (n_models,)."""
    middle = np.empty(len(R))
    for component in np.unique(label):
        middle[label == component] = np.median(R[label == component])
    return middle


def _solve(small: Compact, label: Indices, settings: LoopSettings, start: Start | None) -> Solution:
    begin = None if start is None else find_begin(small, settings, start)
    if begin is not None:
        try:
            return solve(small.cells, label, settings, begin)
        except RatingError:
            pass  # whether there is an answer is for the votes to say, not for where the climb began
    try:
        return solve(small.cells, label, settings, None)
    except NoFiniteMaximumError as error:
        raise NoFiniteMaximumError(small.annotators[error.annotators], error.word) from None


def _units(cells: Cells, solution: Solution, settings: LoopSettings) -> tuple[Floats, Floats]:
    theta = solution.theta
    if settings.method == "m-elo" or len(theta) == 0:
        return np.ones(cells.n_models), np.ones(len(theta))
    if solution.prior_sd is None:
        scale = find_scale(cells)
        models, annotators = scale.models, scale.annotators
    else:
        models, annotators = np.zeros(cells.n_models, dtype=np.int64), np.zeros(len(theta), dtype=np.int64)
    annotator_unit = typical_ability(theta, annotators)
    unit_of_group = np.ones(int(max(models.max(), annotators.max())) + 1)
    unit_of_group[annotators] = annotator_unit
    return unit_of_group[models], annotator_unit
