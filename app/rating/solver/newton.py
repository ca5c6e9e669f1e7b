import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError

from app.rating.data.arrays import Floats, Mask
from app.rating.data.sums import sum_by
from app.rating.data.threads import one_blas_thread
from app.rating.errors import NotConvergedError
from app.rating.solver.arrow import Block, Problem, find_multiplier
from app.rating.solver.likelihood import Curvature

MAX_ITERATIONS = 200
MAX_HALVINGS = 40
SUFFICIENT_DECREASE = 1e-4
ROUNDING = 4e-16  # relative rounding error of a sum, for each root of its number of terms
NEAR = 0.5  # squared Newton decrement below which the observed Hessian replaces Fisher's
SLOW = 0.5  # so it does where a step with Fisher's Hessian leaves more than this share of the last decrement
NEAR_EACH = 0.01  # the same as NEAR, per score and ability
STEPS_WORTH_A_HESSIAN = 3  # an earlier Hessian is reused if it converges in so many steps
DIVERGED = 100.0  # natural units between two scores: σ(100) is 1 in double precision
WIDER = 6.0  # times the range of the start, where that is more
LAST_STEP = 1e-12  # squared Newton decrement of a step so short that the Hessian does not change over it
CONVERGED = 1e-18  # squared Newton decrement at which steps are about 1e-9 standard errors long


@dataclass(frozen=True)
class Optimum:
    """A converged minimum.

    Attributes
    ----------
    value : of the objective
    decrement : remaining squared Newton decrement
    point : gradient and observed Hessian one tiny step before it; None where the last Hessian was Fisher's
    """

    R: Floats
    theta: Floats
    value: float
    iterations: int
    decrement: float
    point: Curvature | None


@dataclass(frozen=True)
class _Step:
    scores: Floats
    abilities: Floats
    decrement: float  # of the free variables: gᵀ H⁻¹ g


@one_blas_thread()
def minimise(problem: Problem, R: Floats, theta: Floats, *, near: bool = False) -> Optimum:
    """Minimise the objective jointly over R and θ ≤ cap, typical θ = 1, by Newton's method on its arrow-shaped Hessian.

    Each iteration is one pass over the cells: eliminate θ's diagonal block (Schur complement), solve the models' block
    by Cholesky, substitute θ back. Abilities at the cap whose gradient points beyond it are held there (projected
    Newton, Bertsekas 1982). The Hessian is Fisher's far from the optimum and wherever the observed one is not positive
    definite, and the observed one near the optimum; steps backtrack along the projected path.

    Parameters
    ----------
    R, theta : start, shapes (n_models,) and (n_annotators,)
    near : whether the start is near the optimum, so that the observed Hessian is used from the beginning

    Raises
    ------
    NotConvergedError
        The Newton decrement has not converged after 200 iterations, no step decreases the objective, or the scores
        range over more than `diverged_range` (not with fixed abilities: the objective is then convex).

    Notes
    -----
    It stops after the step that, at the current rate of convergence, leaves a squared decrement below 1e-18.

    References
    ----------
    Nocedal and Wright, Numerical Optimization, 2nd ed., §3.4; docs/math.md, "The solver".
    """
    R, theta = _normalise(problem, R, theta)
    most_range = np.inf if problem.scale is None else diverged_range(R)
    exact, near_enough = near, max(NEAR, NEAR_EACH * (len(R) + len(theta)))
    point = problem.likelihood.expand(R, theta, exact=exact)
    system: _System | None = None
    decrement, stuck = np.inf, False
    for iteration in range(MAX_ITERATIONS):
        held = _held(problem, theta, point)
        step = None
        if system is not None and np.array_equal(held, system.held):
            step = system.solve(point, theta)
            at_cap = problem.cap is None or bool(np.all(theta[held] == problem.cap))
            left = step.decrement * _rate(step, decrement)
            if step.decrement <= LAST_STEP and left <= CONVERGED and at_cap:
                R, theta = _normalise(problem, *_moved(problem, R, theta, step, 1.0))
                return Optimum(R, theta, point.value, iteration + 1, left, point if exact else None)
        if system is None or step is None or not _worth_keeping(problem, theta, step, system, decrement):
            system, point, exact = _prepare(problem, point, R, theta, held, exact=exact)
            if system is None:
                raise NotConvergedError(f"the models' block is singular at iteration {iteration + 1}", R, theta)
            step = system.first
        exact = step.decrement < near_enough or step.decrement > SLOW * decrement
        decrement = step.decrement
        found = _search(
            problem, point, R, theta, _with_held(problem, step, point, system.held), system.held, exact=exact
        )
        if found is None and not stuck:
            # try Fisher's Hessian from here before giving up
            point, exact, decrement, stuck = problem.likelihood.expand(R, theta, exact=False), False, np.inf, True
            system = None
            continue
        if found is None:
            message = f"no step decreases the objective at iteration {iteration + 1} (decrement {step.decrement:.1e})"
            raise NotConvergedError(message, R, theta)
        stuck = False
        R, theta, point = found
        if float(np.ptp(R)) > most_range:
            raise NotConvergedError(f"a score diverges to infinity by iteration {iteration + 1}", R, theta)
    message = f"not converged after {MAX_ITERATIONS} iterations (squared Newton decrement {decrement:.1e})"
    raise NotConvergedError(message, R, theta)


def diverged_range(start: Floats) -> float:
    """Return the range of scores beyond which a search from this start counts as diverging.

    It grows with the range of the start (m-ELO or an earlier optimum), where models may really be far apart.
    """
    return max(DIVERGED, WIDER * float(np.ptp(start)))


def _worth_keeping(problem: Problem, theta: Floats, step: "_Step", system: "_System", decrement: float) -> bool:
    """Say whether an earlier Hessian, at its current rate of convergence, converges in a few more steps."""
    blocked = _blocked(problem, theta, step, system.held)
    left = step.decrement * _rate(step, decrement) ** STEPS_WORTH_A_HESSIAN
    return left <= CONVERGED and not bool(blocked.any())


def _rate(step: "_Step", decrement: float) -> float:
    """Return the factor by which the last step reduced the squared decrement, at most 1."""
    return min(step.decrement / decrement, 1.0) if decrement > 0 else 1.0


def _prepare(
    problem: Problem, point: Curvature, R: Floats, theta: Floats, held: Mask, *, exact: bool
) -> tuple["_System | None", Curvature, bool]:
    """Factorise the Hessian, or Fisher's where the observed one is not positive definite; None where neither is.

    Free abilities at the cap that the step would move beyond it are held.
    """
    system = _factorise(problem, point, theta, held, exact=exact)
    if system is None and exact:
        point, exact = problem.likelihood.expand(R, theta, exact=False), False
        system = _factorise(problem, point, theta, held, exact=False)
    if system is None:
        return None, point, exact
    blocked = _blocked(problem, theta, system.first, held)
    if blocked.any():
        system = _factorise(problem, point, theta, held | blocked, exact=False) or system
    return system, point, exact


class _System:
    """A factorised Hessian, which gives Newton steps.

    Attributes
    ----------
    held : abilities that do not move
    first : the step from the point of the factorisation
    """

    def __init__(self, problem: Problem, point: Curvature, theta: Floats, held: Mask, *, exact: bool) -> None:
        """Raise LinAlgError where the reduced Hessian is not positive definite."""
        self.problem, self.held, self.cross = problem, held, point.cross
        self.block = Block(problem, point, theta, held, exact=exact)
        self.first = self.solve(point, theta)

    def solve(self, point: Curvature, theta: Floats) -> _Step:
        """Return the step from a point at θ, this one or one nearby, along the constraint."""
        likelihood, arrow = self.problem.likelihood, self.block.arrow
        # at a later θ the gradient of the constraint differs from the one that is projected out
        projected = arrow.project(_gradient_along(self.problem, point, theta, self.held))
        reduced = point.gradient_scores - likelihood.by_model(self.cross, projected)
        scores = -self.block.solve(reduced)
        abilities = -projected - arrow.project(likelihood.times_rows(self.cross, scores))
        free = ~self.held
        own = float(np.sum(projected[free] ** 2 / arrow.inverse_D[free]))
        return _Step(scores, abilities, own - float(reduced @ scores))


def _gradient_along(problem: Problem, point: Curvature, theta: Floats, held: Mask) -> Floats:
    """Return the Lagrangian's gradient by the abilities: 0 for free abilities at the optimum."""
    if problem.scale is None:
        return point.gradient_abilities
    multiplier = find_multiplier(problem.scale, point, theta, held)[problem.scale.annotators]
    return point.gradient_abilities + multiplier * problem.scale.gradient(theta)


def _factorise(problem: Problem, point: Curvature, theta: Floats, held: Mask, *, exact: bool) -> _System | None:
    """Return the system, or None where its Hessian is not positive definite."""
    try:
        return _System(problem, point, theta, held, exact=exact)
    except LinAlgError:
        return None


def _with_held(problem: Problem, step: _Step, point: Curvature, held: Mask) -> _Step:
    """Move held abilities that are near the cap to it, by a scaled gradient step."""
    if problem.cap is None or problem.scale is None:
        return step
    movable = held & (point.D > 0)
    own = np.where(movable, np.abs(point.gradient_abilities) / np.where(movable, point.D, 1.0) + 1e-3, 0.0)
    return _Step(step.scores, np.where(held, own, step.abilities), step.decrement)


def _search(
    problem: Problem, point: Curvature, R: Floats, theta: Floats, step: _Step, held: Mask, *, exact: bool
) -> tuple[Floats, Floats, Curvature] | None:
    """Backtrack along the projected path until the objective decreases enough; None where it never does."""
    if not step.decrement >= 0:
        return None
    # trial points are projected on the constraint, so the slope along it counts
    gradient = _gradient_along(problem, point, theta, held)
    noise = ROUNDING * math.sqrt(len(point.cross)) * abs(point.value)
    length = 1.0
    for _ in range(MAX_HALVINGS):
        new_R, new_theta = _moved(problem, R, theta, step, length)
        slope = point.gradient_scores @ (new_R - R) + gradient @ (new_theta - theta)
        new_R, new_theta = _normalise(problem, new_R, new_theta)
        new = problem.likelihood.expand(new_R, new_theta, exact=exact)
        # a decrease below the rounding error of the objective cannot be measured
        if step.decrement <= noise or (slope < 0 and new.value <= point.value + SUFFICIENT_DECREASE * slope + noise):
            return new_R, new_theta, new
        length /= 2.0
    return None


def _moved(problem: Problem, R: Floats, theta: Floats, step: _Step, length: float) -> tuple[Floats, Floats]:
    """Move along a step, abilities at most to the cap."""
    theta = theta + length * step.abilities
    return R + length * step.scores, theta if problem.cap is None else np.minimum(theta, problem.cap)


def _held(problem: Problem, theta: Floats, point: Curvature) -> Mask:
    """Return the abilities at or near the cap that the gradient pushes beyond it; all where θ is fixed."""
    if problem.scale is None:
        return np.ones(len(theta), dtype=bool)
    none_held = np.zeros(len(theta), dtype=bool)
    if problem.cap is None:
        return none_held
    gradient = _gradient_along(problem, point, theta, theta >= problem.cap)
    reach = np.where(point.D > 0, -gradient / np.where(point.D > 0, point.D, 1.0), np.inf)
    return (gradient < 0) & (theta >= problem.cap - np.minimum(1e-3, np.abs(reach)))


def _blocked(problem: Problem, theta: Floats, step: _Step, held: Mask) -> Mask:
    """Return the free abilities at the cap that the step would move beyond it."""
    if problem.cap is None or problem.scale is None:
        return np.zeros(len(theta), dtype=bool)
    return ~held & (theta >= problem.cap) & (step.abilities > 0)


def _normalise(problem: Problem, R: Floats, theta: Floats) -> tuple[Floats, Floats]:
    """Move along the directions that leave the likelihood unchanged: centre R, and bring θ to the constraint."""
    R = centre(problem, R)
    if problem.scale is None:
        return R, theta
    return problem.scale.normalise(R, theta, problem.cap, free_sign=problem.likelihood.precision == 0)


def centre(problem: Problem, R: Floats) -> Floats:
    """Subtract the mean of every component from the scores."""
    component = problem.component
    members = np.bincount(component)
    centred: Floats = R - (sum_by(component, R, len(members)) / np.maximum(members, 1))[component]
    return centred
