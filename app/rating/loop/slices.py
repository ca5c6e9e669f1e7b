"""Scores from a slice of the votes, everybody's ability held at what all votes gave."""

from dataclasses import dataclass

import numpy as np

from app.rating.data.arrays import Floats, Mask
from app.rating.data.compact import Compact, compact, pool_annotators
from app.rating.data.graph import Components, find_components, find_cores
from app.rating.data.sums import sum_by
from app.rating.data.threads import one_blas_thread
from app.rating.data.votes import Cells
from app.rating.errors import VotesError
from app.rating.inference.covariance import Covariance, covariance
from app.rating.inference.estimate import Estimate
from app.rating.loop.models import make_model_estimates
from app.rating.loop.results import ModelEstimates
from app.rating.settings import LoopSettings
from app.rating.solver.arrow import Problem
from app.rating.solver.correction import correct_held
from app.rating.solver.fit import Fit
from app.rating.solver.likelihood import Likelihood
from app.rating.solver.newton import minimise
from app.rating.solver.observed import observe
from app.rating.solver.second_order import ability_spread
from app.rating.solver.solve import Solution

MOST_NOISE = 0.5  # of what votes seem to say of a model, by abilities' squares, that may be the abilities' own error
SETTLED = 2.0  # standard errors from 0, beyond which an ability has the sign that it seems to have


@dataclass(frozen=True)
class HeldAbilities:
    """Abilities as a fit of all votes gave them, published units (1 is its typical annotator), shape (n_annotators,).

    Attributes
    ----------
    ability : NaN for annotators outside the fit
    inverse, spread : how far each answers its own gradient, and its variance at fixed scores; 0 where abilities are
        known, or their bias was not corrected: then a slice's scores are not corrected either
    variance : of each, as it is published; 0 where abilities are known
    """

    ability: Floats
    inverse: Floats
    spread: Floats
    variance: Floats


@dataclass(frozen=True)
class _Slice(Estimate):
    """An estimate of the scores alone; `held` is what abilities were held at, 0 for annotators who bound nothing."""

    held: Floats

    def abilities(self, n_annotators: int) -> Floats:  # noqa: ARG002  everybody's is known
        """Return everyone's, whether or not their votes are between models that have a score."""
        return self.held


def hold_abilities(whole: Estimate, settings: LoopSettings) -> HeldAbilities:
    """Take the abilities of a fit, and how sure they are, from its estimate and settings, for any number of slices."""
    ability, inverse, spread, variance = np.full((4, whole.cells.n_annotators), np.nan)
    annotators, solution, unit = whole.small.annotators, whole.solution, whole.annotator_unit
    ability[annotators] = solution.theta / unit
    inverse[annotators] = spread[annotators] = variance[annotators] = 0.0
    if settings.bias_correction and solution.observed is not None:
        q, likelihood = solution.observed.ability_inverse(), solution.observed.likelihood
        inverse[annotators] = q / unit**2
        spread[annotators] = ability_spread(likelihood, solution.R, solution.theta, q) / unit**2
        variance[annotators] = spread[annotators]
    if whole.covariance is not None and whole.has_abilities:
        variance[annotators] = np.nan_to_num(whole.covariance.ability_se / unit) ** 2
    return HeldAbilities(ability, inverse, spread, variance)


def estimate_slice(cells: Cells, held: HeldAbilities, settings: LoopSettings) -> ModelEstimates:
    """Maximise ℓ(R) = Σ_cells s·x − n·log(1 + eˣ), x = a_k (R_a − R_b), over a slice's cells, abilities a_k held.

    Parameters
    ----------
    cells : of the slice's votes, which are among those that the abilities were estimated from; indices as there. Votes
        of annotators outside that fit are left out
    held : from `hold_abilities`
    settings : interval, confidence, base and anchor of the board; the rest has done its work in the abilities

    Returns
    -------
    ModelEstimates
        As `make_model_estimates`, in units of the typical annotator of all votes, so that a slice's differences compare
        with those of all votes; the mean of each component's identified models is the base, or the anchor has its
        points. A model whose votes are mostly by annotators with doubtful abilities has no score: where Σ n·Var(a_k) of
        its votes is more than half of Σ n·a_k², the error of the abilities outweighs them, and a score, which divides
        by them, could be anything.

    Raises
    ------
    VotesError
        No vote is by an annotator with an ability, or the anchor has no score in the slice.
    NotConvergedError

    Notes
    -----
    Concave: a finite, unique maximum for the models that have a score, about 6 passes over the cells. Where the whole's
    bias is corrected, so is the slice's. Intervals take the abilities for known; clustered ones become plain below 20
    annotators. Of all votes, uncorrected, the scores are the whole's (docs/math.md, "Slices").
    """
    known = np.isfinite(held.ability)
    cells = cells.where(known[cells.annotator])
    if len(cells.n) == 0:
        raise VotesError("no vote of the slice is by an annotator with an ability")
    theta = np.where(known, held.ability, 0.0)
    pairs = pool_annotators(cells)
    components = find_components(pairs)
    core, open_ = _determined(cells, components, theta, held)
    small = compact(cells.where(core[cells.model_a] & core[cells.model_b]), core)
    with one_blas_thread():
        solution, spread = _solve(small, components, held, settings)
    one, ones = np.ones(len(small.models)), np.ones(len(small.annotators))
    settled = theta**2 > SETTLED**2 * held.variance  # whose votes are for what they name, and not against it
    bounding = np.where(settled, theta, 0.0) if open_ else theta
    return make_model_estimates(
        _Slice(cells, pairs, components, core, small, solution, spread, one, ones, True, {}, bounding), settings
    )


def _determined(cells: Cells, components: Components, theta: Floats, held: HeldAbilities) -> tuple[Mask, bool]:
    """Mark the models that have a score, and say whether abilities that may be none leave others without."""
    barred = np.zeros(cells.n_models, dtype=bool)
    while True:
        left = cells.where(~(barred[cells.model_a] | barred[cells.model_b])) if barred.any() else cells
        core = find_cores(left, components, theta)
        inside = left.where(core[left.model_a] & core[left.model_b])
        k = inside.annotator
        beyond = inside.n * (held.variance[k] - MOST_NOISE * theta[k] ** 2)
        total = sum_by(inside.model_a, beyond, len(core)) + sum_by(inside.model_b, beyond, len(core))
        if not (total > 0.0).any():
            return core, bool(barred.any())
        barred |= total > 0.0


def _solve(
    small: Compact, components: Components, held: HeldAbilities, settings: LoopSettings
) -> tuple[Solution, Covariance | None]:
    theta, nobody = held.ability[small.annotators], np.zeros(len(small.annotators), dtype=bool)
    if len(small.models) == 0:
        nothing = np.zeros(0)
        return Solution(Fit(nothing, theta, nobody, 0.0, 0, nobody), nothing, theta, None), None
    label = components.label[small.models]
    problem = Problem(Likelihood(small.cells, None), label, None)
    optimum = minimise(problem, np.zeros(len(small.models)), theta)
    end = None if optimum.point is None else (problem, optimum.point)
    fit = Fit(optimum.R, theta, nobody, -optimum.value, optimum.iterations, nobody, end)
    observed = observe(small.cells, fit, label, prior_sd=None, abilities=False)
    inverse, spread = held.inverse[small.annotators], held.spread[small.annotators]
    R = correct_held(fit, observed, inverse=inverse, spread=spread) if inverse.any() else fit.R
    solution = Solution(fit, R, theta, None)
    if settings.interval == "none":
        return solution, None
    kind = settings.interval
    return solution, covariance(small.cells, fit, label, kind=kind, prior_sd=None, abilities=False, observed=observed)
