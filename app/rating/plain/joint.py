"""Scores and abilities by joint maximum likelihood: am-ELO as its paper has it."""

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from app.rating.arrays import Floats
from app.rating.errors import NoCommonRankingError, NoFiniteMaximumError, NotConvergedError, SaddlePointError
from app.rating.fitted import FitResult
from app.rating.model.start import balance, fit_bradley_terry
from app.rating.plain.information import TINY, UnitGroups, eliminate, invert, link_groups, saddle_point
from app.rating.plain.likelihood import Derivatives, Likelihood, count_following, own_abilities
from app.rating.plain.m_elo import (
    CONVERGED,
    MOST_HALVINGS,
    MOST_ITERATIONS,
    ROUNDING,
    SUFFICIENT,
    shift_projector,
    typical,
)
from app.rating.threads import one_blas_thread
from app.rating.votes.cells import Cells
from app.rating.votes.graph import find_components

FIRST_STEPS, FURTHEST_START = 3, 1.5  # Newton steps on each ability from 1 before the search, and how far they lead
OUTGROWN = 1e3  # times the typical |θ|
AS_GOOD, APART = 1e-6, 1e-3  # difference in log-likelihood that rounding may make, and of scores of different maxima
RIDGE = 1e-7  # of the mean curvature
LEAST_MEAN = 0.1  # times the typical |θ|, at or below which an average ability sets no unit


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
    search = _JointSearch(cells)
    if start is None:
        R = fit_bradley_terry(balance(cells))
        start = R, np.clip(own_abilities(cells, R, FIRST_STEPS)[0], -FURTHEST_START, FURTHEST_START)
    try:
        R, theta, iterations = search.climb(*start)
    except SaddlePointError as saddle:
        R, theta, iterations = search.leave(saddle)
    refuse_unbounded(cells, R)
    sign = np.where(search.groups.sum(theta) < 0.0, -1.0, 1.0)  # (−R, −θ) explains the votes as well
    R, theta = R * sign[search.groups.models], theta * sign[search.groups.annotators]
    _refuse_outgrown(theta, search.groups)
    return _in_unit(FitResult(R, theta, -search.likelihood.value(R, theta), iterations), search.groups)


class _JointSearch:
    """The search for a maximum: in every group the scores keep their mean 0, and no step stretches them."""

    def __init__(self, cells: Cells) -> None:
        self.likelihood, component = Likelihood(cells), find_components(cells).label
        self.groups, self.shifts = link_groups(cells, component), shift_projector(component)

    def climb(self, R: Floats, theta: Floats) -> tuple[Floats, Floats, int]:
        """Search from a start for a maximum.

        Raises
        ------
        NotConvergedError
            None is near; `SaddlePointError` where the search ends at a saddle point.
        """
        groups = self.groups
        unit = np.sqrt(groups.sum(theta**2) / np.maximum(groups.sum(np.ones(len(theta))), 1.0))
        R, unit = R - self.shifts @ R, np.where(unit > 0.0, unit, 1.0)
        point = self.likelihood.expand(R * unit[groups.models], theta / unit[groups.annotators])
        for iteration in range(1, MOST_ITERATIONS + 1):
            of_scores, of_abilities, decrement, saddle = self._step(point)
            if decrement <= CONVERGED and saddle is None:
                return point.R + of_scores, point.theta + of_abilities, iteration
            if decrement <= CONVERGED and saddle is not None:
                self._explain(point)
                raise saddle
            length = 1.0
            for _ in range(MOST_HALVINGS):
                there = self.likelihood.expand(point.R + length * of_scores, point.theta + length * of_abilities)
                if there.value <= point.value * (1.0 + ROUNDING) - SUFFICIENT * length * decrement:
                    break
                length /= 2.0
            else:
                break
            point = there
        self._explain(point)
        raise NotConvergedError(f"no maximum is near after {iteration} iterations", point.R, point.theta)

    def _step(self, point: Derivatives) -> tuple[Floats, Floats, float, SaddlePointError | None]:
        """Return the step of scores and abilities, and by about twice how much it lowers the objective.

        Abilities are eliminated, and steps are across what changes no probability: shifts of the scores, and stretches
        with smaller abilities, by the information on each score: one that runs away is no stretch. The error says
        where the observed information is not positive definite.
        """
        of_group = self.groups.models == np.arange(self.groups.number)[:, None]
        stretch = np.where(of_group, point.A @ point.R, 0.0)
        stretch /= np.maximum(np.linalg.norm(stretch, axis=1, keepdims=True), TINY)
        flat, inverse_D = self.shifts + stretch.T @ stretch, invert(point.D)
        across, size, saddle = np.eye(len(flat)) - flat, typical(point.A), None
        B = self.likelihood.rows(point.cross)
        reduced = across @ eliminate(point.A, B, inverse_D) @ across + size * flat
        try:
            factor = cho_factor(reduced)
        except LinAlgError:
            saddle, B = saddle_point(point, reduced), self.likelihood.rows(point.expected)
            reduced = across @ eliminate(point.A, B, inverse_D) @ across + size * (flat + RIDGE * np.eye(len(flat)))
            try:
                factor = cho_factor(reduced)
            except LinAlgError:
                raise NotConvergedError("the information is singular", point.R, point.theta) from None
        moved = inverse_D * point.gradient_abilities
        of_scores = -cho_solve(factor, across @ (point.gradient_scores - B.T @ moved))
        of_abilities = -moved - inverse_D * (B @ of_scores)
        decrement = -float(point.gradient_scores @ of_scores + point.gradient_abilities @ of_abilities)
        return of_scores, of_abilities, decrement, saddle

    def _explain(self, point: Derivatives) -> None:
        """Raise NoFiniteMaximumError where that is why a search ends here."""
        refuse_unbounded(self.likelihood.cells, point.R)
        _refuse_outgrown(point.theta, self.groups)

    def leave(self, saddle: SaddlePointError) -> tuple[Floats, Floats, int]:
        """Search on both sides of a saddle point, and return the higher maximum; raise where both are as good."""
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


def _refuse_outgrown(theta: Floats, groups: UnitGroups) -> None:
    """Raise where abilities are so many times the typical one that it measures nothing."""
    if len(outgrown := np.flatnonzero(np.abs(theta) > OUTGROWN * _typical_sizes(theta, groups)[groups.annotators])):
        raise NoFiniteMaximumError(outgrown, "outgrow")


def _in_unit(fit: FitResult, groups: UnitGroups) -> FitResult:
    """Return a fit in units of the mean ability of each group.

    Raises
    ------
    NoCommonRankingError
        A mean, or a median, is at or below a tenth of the median |θ|.
    """
    unit = groups.sum(fit.theta) / groups.sum(np.ones(len(fit.theta)))
    middle = [np.median(fit.theta[groups.annotators == group]) for group in range(groups.number)]
    average = np.minimum(unit, middle) / _typical_sizes(fit.theta, groups)
    if (lowest := float(average.min())) <= LEAST_MEAN:
        raise NoCommonRankingError(
            f"the average ability is {lowest:.3f}, at or below {LEAST_MEAN}: the annotators have no common ranking"
        )
    R, theta = fit.R * unit[groups.models], fit.theta / unit[groups.annotators]
    return FitResult(R, theta, fit.log_likelihood, fit.iterations)


def _typical_sizes(theta: Floats, groups: UnitGroups) -> Floats:
    """Return the median |θ| of each group, shape (number,)."""
    return np.array([np.median(np.abs(theta[groups.annotators == group])) for group in range(groups.number)])
