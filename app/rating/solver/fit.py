from dataclasses import dataclass

import numpy as np

from app.rating.data.arrays import Floats, Indices, Mask
from app.rating.data.compact import pool_annotators
from app.rating.data.graph import find_components, find_cores, strong_classes
from app.rating.data.votes import Cells
from app.rating.errors import NoFiniteMaximumError, NoFiniteScoreError, NotConvergedError
from app.rating.solver.arrow import Problem
from app.rating.solver.capped import minimise_capped
from app.rating.solver.following import count_following
from app.rating.solver.gauge import typical_ability
from app.rating.solver.likelihood import Curvature, Likelihood
from app.rating.solver.newton import Optimum, hopeless_range, minimise
from app.rating.solver.partition import CellRows
from app.rating.solver.profile_abilities import own_abilities
from app.rating.solver.scale import find_scale

FIRST_JUDGEMENTS = 3  # Newton steps on each ability alone, from 1
FURTHEST_START = 1.5  # no ability starts further from 0 than this
# times the typical ability: θd stays below 14 in a million votes that are not all one way, so that typical annotators
# tell such models apart in 50.4 % of votes at most: by tens of thousands of votes each, or not at all
OUTGROWN = 1e3
LARGEST_UNDECIDED = 20  # annotators linked by votes; of fewer it may be that no vote tells whom to believe


@dataclass(frozen=True)
class Fit:
    """A converged maximum over one set of compact cells, in the solver's own gauge.

    Attributes
    ----------
    R : natural units, mean 0 in each component, shape (n_models,)
    theta : shape (n_annotators,); all 1 for m-ELO
    at_cap : abilities that the cap holds
    undecided : abilities that the votes leave open, held at 1 (`app.rating.solver.solve`)
    log_likelihood : of the votes alone
    iterations : Newton iterations
    end : what was solved, and its observed Hessian at the maximum, where the solver leaves one
    """

    R: Floats
    theta: Floats
    at_cap: Mask
    log_likelihood: float
    iterations: int
    undecided: Mask
    end: tuple[Problem, Curvature] | None = None

    @property
    def held(self) -> Mask:
        """Abilities that something other than their own gradient decides."""
        held: Mask = self.at_cap | self.undecided
        return held


def fit_m_elo(cells: Cells, component: Indices, start: Floats | None = None) -> Fit:
    """Maximise ℓ(R) = Σ_cells s·log σ(R_a − R_b) + (n − s)·log σ(R_b − R_a): Bradley-Terry.

    Parameters
    ----------
    cells : every model connected to every other of its component through wins in both directions
    component : component of each model, shape (n_models,)
    start : R to start from; default 0, and so where no way leads from there

    Returns
    -------
    Fit
        with θ = 1; unique up to the shift that centring each component removes.

    Raises
    ------
    NoFiniteScoreError
        Some model is not so connected: the maximum lies at infinity.
    NotConvergedError

    Notes
    -----
    Concave; works on the pair table, O(n_models²) memory and O(n_models³) per iteration, about 5 to 10 iterations.

    References
    ----------
    Liu et al., Am-ELO, ICML 2025, eq. 4; Bradley and Terry (1952).
    """
    pairs = pool_annotators(cells)
    strong = strong_classes(pairs, np.ones(1))
    if len(np.unique(strong)) > len(np.unique(component)):
        largest = find_cores(pairs, find_components(pairs), np.ones(1))
        raise NoFiniteScoreError(np.flatnonzero(~largest))
    if start is not None and np.isfinite(start).all():
        try:
            return climb_m_elo(cells, component, start)
        except NotConvergedError:
            pass  # so far out that the likelihood is flat
    return climb_m_elo(cells, component)


def climb_m_elo(cells: Cells, component: Indices, start: Floats | None = None) -> Fit:
    """Maximise as `fit_m_elo`, to a flat place far out where the maximum lies at infinity: where others may start."""
    likelihood = Likelihood(pool_annotators(cells), None)
    R, one = np.zeros(cells.n_models) if start is None else start, np.ones(1)
    optimum = minimise(Problem(likelihood, component, None), R, one)
    theta, nobody = np.ones(cells.n_annotators), np.zeros(cells.n_annotators, dtype=bool)
    return Fit(optimum.R, theta, nobody, -optimum.value, optimum.iterations, nobody)


def fit_am_elo(
    cells: Cells,
    component: Indices,
    *,
    prior_sd: float | None = 1.0,
    ability_cap: float | None = 1.75,
    start: tuple[Floats, Floats] | None = None,
) -> Fit:
    """Maximise ℓ(R, θ) − Σ_k (θ_k − 1)²/(2 sd²) with P = σ(θ_k (R_a − R_b)), θ_k ≤ cap and typical θ = 1.

    Parameters
    ----------
    cells : as for `fit_m_elo`
    component : component of each model, shape (n_models,)
    prior_sd : None is the paper's estimator (plain maximum likelihood)
    ability_cap : in units of the typical ability, greater than 1; None for none
    start : (R, θ); default balanced m-ELO and the abilities judged by it

    Returns
    -------
    Fit
        The typical θ (a smooth median, `solver.scale`) is 1 in every group of models and annotators that votes
        connect; `solver.gauge` makes either the published or the paper's gauge. Without a prior that is only a
        choice of gauge, with one it is part of the estimator.

    Raises
    ------
    ValueError
        A cap without a prior: nothing would set the scale that it is a bound on.
    NoFiniteMaximumError
        Plain only: some annotators agree (or disagree) with the ranking in every vote, so their abilities have no
        finite maximum; or theirs are more than 1,000 times the typical one, whose annotators' votes are even: measured
        by that all others lie at infinity. `annotators` has their indices.
    NoCommonRankingError
        No scale makes the typical ability 1.
    NotConvergedError

    Notes
    -----
    The objective is bi-concave, not jointly concave: the result is the stationary point reached from the start;
    docs/math.md reports how it compares with random starts. One pass over the cells per iteration.

    References
    ----------
    Liu et al., Am-ELO, ICML 2025, eqs. 5 to 7, Algorithm 2.
    """
    if prior_sd is None and ability_cap is not None:
        raise ValueError("an ability cap needs a prior: without one nothing sets the scale of abilities")
    likelihood = Likelihood(cells, prior_sd)
    R, theta = start or _balanced_start(likelihood, component)
    problem = Problem(likelihood, component, find_scale(cells), ability_cap)
    try:
        optimum = _minimise(problem, R, theta, near=start is not None)
    except NotConvergedError as failure:
        if prior_sd is None:
            _refuse_unbounded(likelihood.rows, failure.R)
        typical_ability(_own(problem, failure.R, failure.theta))
        raise
    if prior_sd is None:
        _refuse_unbounded(likelihood.rows, optimum.R)
        _refuse_outgrown(optimum.theta)
    nobody = np.zeros(len(theta), dtype=bool)
    at_cap = nobody if ability_cap is None else optimum.theta >= ability_cap
    log_likelihood = likelihood.prior(optimum.theta) - optimum.value
    end = None if optimum.point is None else (problem, optimum.point)
    return Fit(optimum.R, optimum.theta, at_cap, log_likelihood, optimum.iterations, nobody, end)


def _minimise(problem: Problem, R: Floats, theta: Floats, *, near: bool) -> Optimum:
    """Minimise, the slower way where the cap stops the faster one in a crowd."""
    try:
        return minimise(problem, R, theta, near=near)
    except NotConvergedError as failure:
        crowd = problem.scale is not None and problem.scale.number == 1 and len(theta) >= LARGEST_UNDECIDED
        if problem.cap is None or not crowd or float(np.ptp(failure.R)) > hopeless_range(R):
            raise
        for begin in (theta, np.ones(len(theta))):
            try:
                optimum = minimise_capped(problem, R, begin)
            except NotConvergedError:
                continue
            typical_ability(_own(problem, optimum.R, optimum.theta))
            return optimum
        raise


def _balanced_start(likelihood: Likelihood, component: Indices) -> tuple[Floats, Floats]:
    """Start from m-ELO in which nobody has more than about one vote's say on any model, and abilities judged by it.

    Plain m-ELO believes whoever votes most often on a model; from there a ring that floods one model's battles is
    taken for reliable, and am-ELO climbs to a poorer maximum (docs/math.md, "The solver").
    """
    R = climb_m_elo(likelihood.balanced_pairs(), component).R
    one = np.ones(likelihood.cells.n_annotators)
    return R, likelihood.judge(R, one, steps=FIRST_JUDGEMENTS, furthest=FURTHEST_START)


def _own(problem: Problem, R: Floats, theta: Floats) -> Floats:
    """Judge annotators by their own votes at these scores, where the constraint may hold the typical ability up."""
    own = own_abilities(problem.likelihood.rows, R, theta, precision=problem.likelihood.precision).theta
    return own if problem.cap is None else np.minimum(own, problem.cap)


def _refuse_unbounded(rows: CellRows, R: Floats) -> None:
    """Raise where some annotator's votes all follow, or all oppose, the ranking: no finite ability is best."""
    along, against = count_following(rows, R)
    for counter, word in ((against, "follow"), (along, "oppose")):
        unbounded = np.flatnonzero(counter == 0)
        if len(unbounded):
            raise NoFiniteMaximumError(unbounded, word)


def _refuse_outgrown(theta: Floats) -> None:
    """Raise where abilities have left the typical one, 1, so far behind that nothing can be measured by it."""
    outgrown = np.flatnonzero(np.abs(theta) > OUTGROWN)
    if len(outgrown):
        raise NoFiniteMaximumError(outgrown, "outgrow")
