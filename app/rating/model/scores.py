"""Scores by the marginal equations, in which every annotator's ability is integrated out."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TypeVar

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lu_factor, lu_solve

from app.rating.arrays import Floats, Indices
from app.rating.errors import NotConvergedError
from app.rating.model.crowd import Clusters, Contributions, Crowd, Directions
from app.rating.model.law import ASSUMED_SPREAD, Law, Posterior, find_law
from app.rating.model.start import PRECISION, balance, disperse, fit_bradley_terry
from app.rating.model.weights import weigh_votes
from app.rating.sums import Sums
from app.rating.threads import map_parts, one_blas_thread
from app.rating.votes.cells import Cells
from app.rating.votes.compact import pool_annotators
from app.rating.votes.graph import find_components

MOST_ITERATIONS = 60
CONVERGED = 1e-7  # longest step of a score in natural units
NEAR, STEADY = 1e-2, 1e-3  # steps below which the nodes, and the matrices, of the step before serve
LONGEST = 1.0  # step of a score
MOST_HALVINGS = 8
STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the bounds on influence, where the search with all of it failed

S = TypeVar("S", bound=Sums)


@dataclass(frozen=True)
class Equations:
    """The equations of the scores at a point.

    Attributes
    ----------
    value : Σ_k u_k − R/σ², with each component's stretch decided by the plain votes; 0 at the solution
    jacobian : minus its derivative by R, not symmetric
    information : Σ n E[h θ p (1 − p)] (e_a − e_b)(e_a − e_b)′ + 1/σ²: positive definite
    """

    value: Floats
    jacobian: Floats
    information: Floats


@dataclass(frozen=True)
class MarginalFit:
    """A solution of the marginal equations.

    Attributes
    ----------
    R : scores, natural units of the average honest annotator, each component centred, shape (n_models,)
    label : component of each model, −1 without a vote, shape (n_models,)
    law : of the crowd
    dispersion : variance of a vote relative to p (1 − p); below 1 where there are ties
    ability, ability_sd : posterior mean and standard deviation, NaN without a vote, shape (n_annotators,)
    types : posterior probability of each of `TYPES`, shape (n_annotators, 4)
    log_likelihood : Σ_k log ∫ L_k dG, divided by the dispersion
    equations : at the solution
    clusters : what the annotators add to the errors
    iterations : of the solver
    """

    R: Floats
    label: Indices
    law: Law
    dispersion: float
    ability: Floats
    ability_sd: Floats
    types: Floats
    log_likelihood: float
    equations: Equations
    clusters: Clusters
    iterations: int


class Crowds:
    """All annotators, in parts on which threads work."""

    def __init__(self, cells: Cells, limit: float | None, temper: float, crowd: Callable[..., Crowd] = Crowd) -> None:
        weight = weigh_votes(cells, limit)
        self.parts = [
            crowd(cells.of_annotators(*part), weight[slice(*cells.starts[list(part)])], temper)
            for part in cells.split_annotators()
        ]

    def each(self, work: Callable[[Crowd], object]) -> list[object]:
        """Do the work in every part; results in order."""
        return map_parts(work, self.parts)

    def total(self, work: Callable[[Crowd], S]) -> S:
        """Do the work in every part, and add up the sums."""
        return reduce(add, map_parts(work, self.parts))

    def join(self, work: Callable[[Crowd], Floats]) -> Floats:
        """Return an array over all annotators."""
        return np.concatenate(map_parts(work, self.parts))

    def weigh(self, law: Law) -> Posterior:
        """Return the sums of all posteriors under a law."""
        return self.total(lambda crowd: crowd.weigh(law))

    def settle(self, law: Law) -> Posterior:
        """Keep the posteriors under a law; return their sums."""
        return self.total(lambda crowd: crowd.weigh(law, settle=True))


@one_blas_thread()
def fit_scores(
    cells: Cells, *, influence_limit: float | None = 1.25, start: Floats | None = None, spread: float = ASSUMED_SPREAD
) -> MarginalFit:
    """Solve Σ_k E[Σ_c w_c h(θ_k) (s_c − n_c σ(θ_k d_c)) (e_a − e_b) | votes of k] = R/σ² for the scores R.

    E is over the posterior of θ_k under the crowd's law, which is estimated with the scores. h(θ) bounds what a vote of
    an able annotator moves, w_c what many votes of one annotator on a model move: neither depends on the outcomes, so
    each term has the mean 0 at the true scores. The stretch of each component's scores is decided by the same equation
    with h(θ) = θ and w = 1, the gradient of the marginal likelihood: there the law's form matters least.

    Parameters
    ----------
    cells : votes of the annotators that count
    influence_limit : of `app.rating.model.weights`
    start : R to start from; default the Bradley-Terry scores of balanced votes, in which no annotator has more than
        about one vote on a model, so that attackers who flood a model do not decide where the search begins
    spread : of honest abilities that is assumed before any vote is seen, as that of four annotators

    Raises
    ------
    NotConvergedError

    References
    ----------
    Bock and Aitkin, Psychometrika 1981; Louis, JRSS B 1982.
    """
    pairs = pool_annotators(cells)
    label = find_components(pairs).label
    dispersion = disperse(pairs, fit_bradley_terry(pairs))
    R = fit_bradley_terry(balance(cells)) if start is None else start.astype(np.float64)
    crowds = Crowds(cells, influence_limit, 1.0 / dispersion)
    return Search(crowds, label, dispersion).find(R, spread)


@dataclass(frozen=True)
class Point:
    """Where the search is.

    Attributes
    ----------
    value : log-likelihood of the votes
    away : value′ information⁻¹ value of the equations: about how far the solution is, in squared standard errors
    """

    R: Floats
    law: Law
    equations: Equations
    value: float
    away: float

    strength: float

    def better_than(self, other: "Point") -> bool:
        """Whether the search may go on from here.

        The value is the objective at the strength 0, but for followers, whose votes say nothing of the scores.
        """
        return self.away <= other.away or self.value > other.value


class Search:
    """The search for the scores."""

    def __init__(self, crowds: Crowds, label: Indices, dispersion: float) -> None:
        self.crowds, self.label, self.dispersion, self.iterations = crowds, label, dispersion, 0

    def find(self, R: Floats, spread: float = ASSUMED_SPREAD) -> MarginalFit:
        """Solve the equations from R; where that fails, those without the bounds on influence first.

        Raises
        ------
        NotConvergedError
        """
        begin = self.at(R, Law.assumed(spread), 1.0, look=True, full=True)
        try:
            return self.conclude(self.solve(begin))
        except NotConvergedError:
            self.crowds.each(Crowd.leave_followers_out)
            for strength in STRENGTHS:
                begin = self.solve(self.at(begin.R, begin.law, strength, look=True, full=True))
            return self.conclude(begin)

    def at(self, R: Floats, law: Law, strength: float, *, look: bool, full: bool) -> Point:
        """Estimate the law at these scores, and set up the equations."""
        crowds, directions = self.crowds, Directions.of(R, self.label)
        if look:
            crowds.each(lambda crowd: crowd.look(R, law.spread))
        crowds.each(lambda crowd: crowd.fill(R))
        law = find_law(law, crowds.weigh)
        value = crowds.settle(law).value - 0.5 * PRECISION * float(R @ R)
        sums = crowds.total(lambda crowd: crowd.contribute(R, directions, strength, full=full))
        found = combine(sums, R, directions)
        away = float(found.value @ cho_solve(cho_factor(found.information), found.value)) if full else 0.0
        return Point(R, law, found, value, away, strength)

    def solve(self, at: Point) -> Point:
        """Solve the equations at a strength by Newton's method with backtracking.

        Raises
        ------
        NotConvergedError
        """
        solve = _solver(at.equations)
        for _ in range(MOST_ITERATIONS):
            self.iterations += 1
            step = solve(at.equations.value)
            longest = float(np.abs(step).max(initial=0.0))
            if longest < CONVERGED:
                return at
            full, share = longest > STEADY, min(1.0, LONGEST / longest)
            for _ in range(MOST_HALVINGS):
                there = self.at(at.R + share * step, at.law, at.strength, look=longest > NEAR, full=full)
                if not full or there.better_than(at):
                    break
                share /= 2.0
            else:
                break
            at = there
            if full:
                solve = _solver(at.equations)
        detail = f"the scores still moved by {longest:.1e} after {self.iterations} iterations"
        raise NotConvergedError(detail, at.R, self.crowds.join(Crowd.ability))

    def known(self, equations: Equations) -> Floats:
        """Return the information on every score, abilities known."""
        return np.maximum(np.diag(equations.information) - PRECISION, 1e-300)

    def conclude(self, at: Point) -> MarginalFit:
        """Return the fit at a solution, with what the annotators add to its errors."""
        crowds, directions = self.crowds, Directions.of(at.R, self.label)
        sums = crowds.total(lambda crowd: crowd.contribute(at.R, directions, at.strength, full=True))
        equations = combine(sums, at.R, directions)
        known = self.known(equations)
        clusters = crowds.total(lambda crowd: crowd.cluster(at.R, directions, known))
        ability = crowds.join(Crowd.ability)
        variance = np.maximum(crowds.join(Crowd.square) - ability**2, 0.0)
        silent = np.concatenate(map_parts(Crowd.silent, crowds.parts))
        ability[silent] = variance[silent] = np.nan
        return MarginalFit(
            at.R, self.label, at.law, self.dispersion, ability, np.sqrt(variance),
            crowds.join(lambda crowd: crowd.types), at.value, equations, clusters, self.iterations,
        )  # fmt: skip


def combine(found: Contributions, R: Floats, directions: Directions) -> Equations:
    """Put the equations together: those of the weighted votes, but for each component's stretch that of the plain ones.

    With t the unit vector of a component's centred scores, x = u − R/σ² and y the same of the plain votes, the value is
    x + Σ t t′(y − x).
    """
    along, size = directions.along, len(R)
    prior = PRECISION * np.eye(size)
    weighted, plain = found.weighted - PRECISION * R, found.plain - PRECISION * R
    of_weighted = found.information - found.known + prior
    missing = along.T @ (plain - weighted)
    value = weighted + along @ missing
    inside = directions.inside()
    length = np.maximum((along * R[:, None]).sum(axis=0), 1e-9)
    amount = inside.T @ np.abs(found.stretched)  # γ belongs to every component, about as it has votes
    own = inside + (directions.label < 0)[:, None] * amount / max(float(amount.sum()), 1e-300)
    of_plain = own * found.stretched[:, None] - found.known_stretched + PRECISION * along
    jacobian = of_weighted + along @ (of_plain - of_weighted.T @ along).T
    difference = inside * (plain - weighted)[:, None]
    centred = difference - inside * (difference.sum(axis=0) / np.maximum(inside.sum(axis=0), 1.0))
    turn = missing / length  # how the directions turn with the scores
    jacobian -= np.diag(inside @ turn) - (inside * (turn / np.maximum(inside.sum(axis=0), 1.0))) @ inside.T
    jacobian -= along @ (centred / length).T - 2.0 * (along * turn) @ along.T
    return Equations(value, jacobian, found.information + prior)


def _solver(equations: Equations) -> Callable[[Floats], Floats]:
    """Return what solves the Newton system; where the Jacobian is not positive, that of expectation-maximisation."""
    try:
        cho_factor((equations.jacobian + equations.jacobian.T) / 2.0)
    except LinAlgError:
        factor = cho_factor(equations.information)
        return lambda value: cho_solve(factor, value)
    exact = lu_factor(equations.jacobian)
    return lambda value: lu_solve(exact, value)
