"""Scores and abilities by joint maximum likelihood: am-ELO as its paper has it."""

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from app.rating.arrays import Floats, Mask
from app.rating.errors import (
    NoCommonRankingError,
    NoFiniteMaximumError,
    NotConvergedError,
    SaddlePointError,
)
from app.rating.fitted import FitResult
from app.rating.model.start import balance, fit_bradley_terry
from app.rating.plain.abilities import count_following, own_abilities
from app.rating.plain.information import Groups, Information, link_groups
from app.rating.plain.likelihood import Likelihood
from app.rating.plain.m_elo import CONVERGED, MOST_HALVINGS, MOST_ITERATIONS, ROUNDING, SUFFICIENT, shift_projector
from app.rating.threads import one_blas_thread
from app.rating.votes.cells import Cells
from app.rating.votes.graph import find_components

FIRST_STEPS, FURTHEST_START = 3, 1.5  # Newton steps on each ability from 1 before the search, and how far they lead
LEAST_MEAN = 0.1  # times the typical |θ|, at or below which an average ability sets no unit
OUTGROWN = 1e3  # times the typical |θ|
AS_GOOD, APART = 1e-6, 1e-3  # difference in log-likelihood that rounding may make, and of scores of different maxima
RIDGE = 1e-9  # of the mean curvature


@one_blas_thread()
def fit_joint(cells: Cells, start: tuple[Floats, Floats] | None = None) -> FitResult:
    """Maximise ℓ(R, θ) with P = σ(θ_k (R_a − R_b)) over scores and abilities.

    Parameters
    ----------
    cells : every model connected to every other of its component through wins in both directions
    start : R and θ; default Bradley-Terry scores of balanced votes, in which no annotator has more than about one vote
        on a model, and the abilities at them

    Returns
    -------
    FitResult
        (R, θ) → (cR, θ/c) changes no probability: the mean ability is 1 in every group of models and annotators that
        votes link.

    Raises
    ------
    NoFiniteMaximumError
        The abilities of `annotators` (indices) have no finite maximum: all their votes follow (or oppose) the ranking,
        or they grow beyond 1,000 times the typical one, because the votes put that at 0.
    NoCommonRankingError
        The median or mean ability is at or below a tenth of the typical |θ|.
    NotConvergedError
        `SaddlePointError` where two maxima are as good.

    Notes
    -----
    Bi-concave, not jointly concave: Newton's method on both together, abilities eliminated, with Fisher's information
    where the observed one is not positive definite. The result is the maximum that it reaches from the start.

    References
    ----------
    Liu et al., Am-ELO, ICML 2025, eqs. 5 to 7, Algorithm 2.
    """
    search = _Search(cells)
    if start is None:
        R = fit_bradley_terry(balance(cells))
        start = R, np.clip(own_abilities(cells, R, FIRST_STEPS)[0], -FURTHEST_START, FURTHEST_START)
    try:
        R, theta, iterations = search.climb(*start)
        search.expand(R, theta)  # a maximum, and no saddle point
    except SaddlePointError as saddle:
        R, theta, iterations = search.leave(saddle)
    refuse_unbounded(cells, R)
    sign = np.where(search.groups.sum(theta) < 0.0, -1.0, 1.0)  # (−R, −θ) explains the votes as well
    R, theta = R * sign[search.groups.models], theta * sign[search.groups.annotators]
    _refuse_outgrown(theta, search.groups)
    everyone = np.ones(len(theta), dtype=bool)
    return in_unit(FitResult(R, theta, -search.likelihood.value(R, theta), iterations), search.groups, everyone)


class _Search:
    """The search for a maximum; each group's Σθ² stays as it is, and its scores keep their mean 0."""

    def __init__(self, cells: Cells) -> None:
        self.likelihood, component = Likelihood(cells), find_components(cells).label
        self.groups, self.shifts = link_groups(cells, component), shift_projector(component)

    def expand(self, R: Floats, theta: Floats, *, exact: bool = True) -> Information:
        """Return the information at a point; of an exact one its inverse too, so that it is no saddle point."""
        point = self.likelihood.expand(R, theta, exact=exact)
        found = Information.at(self.likelihood, point, self.groups, self.shifts, theta)
        if exact:
            _ = found.inverse
        return found

    def climb(self, R: Floats, theta: Floats) -> tuple[Floats, Floats, int]:
        """Search from a start for a maximum; raise NotConvergedError where none is near."""
        R = R - self.shifts @ R
        value = self.likelihood.value(R, theta)
        for iteration in range(1, MOST_ITERATIONS + 1):
            unit = np.sqrt(self.groups.sum(theta**2) / np.maximum(self.groups.sum(np.ones(len(theta))), 1.0))
            unit = np.where(unit > 0.0, unit, 1.0)
            R, theta = R * unit[self.groups.models], theta / unit[self.groups.annotators]
            of_scores, of_abilities, decrement = self._step(R, theta)
            if decrement <= CONVERGED:
                return R + of_scores, theta + of_abilities, iteration
            length = 1.0
            for _ in range(MOST_HALVINGS):
                there = self.likelihood.value(R + length * of_scores, theta + length * of_abilities)
                if there <= value * (1.0 + ROUNDING) - SUFFICIENT * length * decrement:
                    break
                length /= 2.0
            else:
                break
            R, theta, value = R + length * of_scores, theta + length * of_abilities, there
        refuse_unbounded(self.likelihood.cells, R)
        _refuse_outgrown(theta, self.groups)
        raise NotConvergedError(f"no maximum is near after {iteration} iterations", R, theta)

    def _step(self, R: Floats, theta: Floats) -> tuple[Floats, Floats, float]:
        """Return the step of scores and abilities, and by about twice how much it lowers the objective."""
        try:
            found = self.expand(R, theta)
            solve = found.inverse
        except SaddlePointError:
            found = self.expand(R, theta, exact=False)
            try:
                solve = cho_solve(
                    cho_factor(found.whole + RIDGE * np.eye(len(R)) * np.trace(found.whole)), np.eye(len(R))
                )
            except LinAlgError:
                raise NotConvergedError("the information is singular", R, theta) from None
        point, cells = found.point, self.likelihood.cells
        right = point.gradient_scores - self.likelihood.by_model(
            point.cross * found.project(point.gradient_abilities)[cells.annotator]
        )
        of_scores = -solve @ right
        of_abilities = -found.project(point.gradient_abilities + self.likelihood.times(point.cross, of_scores))
        decrement = -float(point.gradient_scores @ of_scores + point.gradient_abilities @ of_abilities)
        return of_scores, of_abilities, decrement

    def leave(self, saddle: SaddlePointError) -> tuple[Floats, Floats, int]:
        """Search on both sides of a saddle point, and return the higher maximum; raise where both are as good."""
        refuse_unbounded(self.likelihood.cells, saddle.R)
        ends = [self.climb(saddle.R + side * saddle.direction, saddle.theta) for side in (1.0, -1.0)]
        ends.sort(key=lambda end: self.likelihood.value(*end[:2]))
        (best, other), values = ends, [self.likelihood.value(*end[:2]) for end in ends]
        if values[1] < values[0] + AS_GOOD and np.abs(best[0] - other[0]).max() > APART:
            raise saddle
        return best


def refuse_unbounded(cells: Cells, R: Floats) -> None:
    """Raise NoFiniteMaximumError where all votes of an annotator follow, or all oppose, the ranking."""
    along, against = count_following(cells, R)
    for counter, word in ((against, "follow"), (along, "oppose")):
        if len(unbounded := np.flatnonzero(counter == 0.0)):
            raise NoFiniteMaximumError(unbounded, word)


def _typical(theta: Floats, groups: Groups) -> Floats:
    """Return the median |θ| of each group, shape (number,)."""
    return np.array([np.median(np.abs(theta[groups.annotators == group])) for group in range(groups.number)])


def _refuse_outgrown(theta: Floats, groups: Groups) -> None:
    """Raise where abilities are so many times the typical one that it measures nothing."""
    if len(outgrown := np.flatnonzero(np.abs(theta) > OUTGROWN * _typical(theta, groups)[groups.annotators])):
        raise NoFiniteMaximumError(outgrown, "outgrow")


def in_unit(fit: FitResult, groups: Groups, counts: Mask) -> FitResult:
    """Return a fit in units of the mean ability of these annotators in each group; of all, where none of it counts.

    Raises
    ------
    NoCommonRankingError
        Their mean, or the median of all, is at or below a tenth of the median |θ|.
    """
    weight = unit_weights(groups, counts)
    unit = groups.sum(weight * fit.theta) / groups.sum(weight)
    middle = [np.median(fit.theta[groups.annotators == group]) for group in range(groups.number)]
    average = np.minimum(unit, middle) / _typical(fit.theta, groups)
    if (lowest := float(average.min())) <= LEAST_MEAN:
        raise NoCommonRankingError(
            f"the average ability is {lowest:.3f}, at or below {LEAST_MEAN}: the annotators have no common ranking"
        )
    R, theta = fit.R * unit[groups.models], fit.theta / unit[groups.annotators]
    return FitResult(R, theta, fit.log_likelihood, fit.iterations)


def unit_weights(groups: Groups, counts: Mask) -> Floats:
    """Return 1 for annotators whose mean is the unit of their group, 0 for the others, shape (n_annotators,)."""
    alone = groups.sum(counts.astype(np.float64)) == 0.0
    weights: Floats = (counts | alone[groups.annotators]).astype(np.float64)
    return weights
