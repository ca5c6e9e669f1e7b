import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError

from app.rating.data.arrays import Floats, Mask
from app.rating.data.sums import sum_by
from app.rating.data.threads import one_blas_thread
from app.rating.errors import NotConvergedError
from app.rating.solver.arrow import Problem, factorise, multiplier
from app.rating.solver.likelihood import Curvature

MAX_ITERATIONS = 200
MAX_HALVINGS = 40
SUFFICIENT_DECREASE = 1e-4
ROUNDING = 4e-16  # of a sum, relative, times the root of the number of terms
NEAR = 0.5  # below this squared Newton decrement the observed Hessian takes over from Fisher's
SLOW = 0.5  # so does it where a step of Fisher's leaves more than this of the last decrement
NEAR_EACH = 0.01  # or below this for every score and ability: near the optimum for each, many as they are
STEPS_WORTH_A_HESSIAN = 3  # which an earlier one may still have to serve for, rather than making another
HOPELESS = 100.0  # natural units between two scores, where the start had no wider range: σ(100) is 1 long before
WIDER = 6.0  # times the start's range, where that was wider: what ends so far out has run off on its own
LAST_STEP = 1e-12  # squared Newton decrement of a step so short that the Hessian before it serves after it
SETTLED = 1e-18  # squared Newton decrement at which steps are about 1e-9 standard errors long


@dataclass(frozen=True)
class Optimum:
    """A point at which the gradient is settled.

    Attributes
    ----------
    value : of the objective
    decrement : squared Newton decrement that is left
    point : gradient and observed Hessian a last, tiny step before it; None where Fisher's was the last
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

    Each iteration is one pass over the cells: θ's diagonal block is eliminated (Schur complement), the models' block
    solved by Cholesky, θ substituted back; abilities at the cap whose gradient points beyond it are held there
    (projected Newton, Bertsekas 1982). Fisher scoring far from the optimum and wherever the observed Hessian is not
    positive definite, exact Newton near it, backtracking along the projected path.

    Parameters
    ----------
    R, theta : start, shapes (n_models,) and (n_annotators,)
    near : the start is believed to be near the optimum: begin with the observed Hessian

    Raises
    ------
    NotConvergedError
        When the gradient and the Newton decrement have not settled after 200 iterations, or no step decreases the
        objective; or, where abilities are not fixed, when the scores have come to range over more than
        `hopeless_range`. (With fixed abilities the objective is convex, and scores go where it says.)

    Notes
    -----
    It stops at the step that, at the rate of the last ones, leaves a squared decrement of 1e-18, and takes it.

    References
    ----------
    Nocedal and Wright, Numerical Optimization, 2nd ed., §3.4; docs/math.md, "The solver".
    """
    R, theta = _normalise(problem, R, theta)
    hopeless = np.inf if problem.scale is None else hopeless_range(R)
    exact, near_enough = near, max(NEAR, NEAR_EACH * (len(R) + len(theta)))
    point = problem.likelihood.expand(R, theta, exact=exact)
    system: _System | None = None
    decrement, stuck = np.inf, False
    for iteration in range(MAX_ITERATIONS):
        held = _held(problem, theta, point)
        step = None
        if system is not None and np.array_equal(held, system.held):
            step = system.next(point, theta)
            at_cap = problem.cap is None or bool(np.all(theta[held] == problem.cap))
            left = np.inf if step is None else step.decrement * _rate(step, decrement)
            if step is not None and step.decrement <= LAST_STEP and left <= SETTLED and at_cap:
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
            # once more from here, by Fisher's Hessian, before giving up
            point, exact, decrement, stuck = problem.likelihood.expand(R, theta, exact=False), False, np.inf, True
            system = None
            continue
        if found is None:
            message = f"no step decreases the objective at iteration {iteration + 1} (decrement {step.decrement:.1e})"
            raise NotConvergedError(message, R, theta)
        stuck = False
        R, theta, point = found
        if float(np.ptp(R)) > hopeless:
            raise NotConvergedError(f"a score runs off to infinity by iteration {iteration + 1}", R, theta)
    message = f"not settled after {MAX_ITERATIONS} iterations (squared Newton decrement {decrement:.1e})"
    raise NotConvergedError(message, R, theta)


def hopeless_range(start: Floats) -> float:
    """Return the range of scores that a search from here takes for one that runs off to infinity.

    The start, m-ELO or an earlier optimum, knows how far apart the models really are.
    """
    return max(HOPELESS, WIDER * float(np.ptp(start)))


def _worth_keeping(problem: Problem, theta: Floats, step: "_Step", system: "_System", decrement: float) -> bool:
    """Whether an earlier point's Hessian, at the rate at which it now converges, gets there in few more steps."""
    blocked = _blocked(problem, theta, step, system.held)
    left = step.decrement * _rate(step, decrement) ** STEPS_WORTH_A_HESSIAN
    return left <= SETTLED and not bool(blocked.any())


def _rate(step: "_Step", decrement: float) -> float:
    """By how much a step multiplies the squared decrement, as far as the last one tells."""
    return min(step.decrement / decrement, 1.0) if decrement > 0 else 1.0


def _prepare(
    problem: Problem, point: Curvature, R: Floats, theta: Floats, held: Mask, *, exact: bool
) -> tuple["_System | None", Curvature, bool]:
    """Factorise the Hessian here, Fisher's where the observed one is not positive definite; None if that is not either.

    Abilities at the cap that were free to leave it, and would not, are held.
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
    """A factorised arrow: solves for Newton steps.

    Attributes
    ----------
    held : abilities that do not take part
    first : the step from the point at which it was factorised
    """

    def __init__(self, problem: Problem, point: Curvature, theta: Floats, held: Mask, *, exact: bool) -> None:
        """Raise LinAlgError where the reduced Hessian is not positive definite."""
        self.problem, self.held, self.cross = problem, held, point.cross
        self.block = factorise(problem, point, theta, held, exact=exact)
        self.first = self.solve(point, theta)

    def next(self, point: Curvature, theta: Floats) -> _Step | None:
        """Step from a later point; None where the earlier Hessian has none to offer."""
        try:
            return self.solve(point, theta)
        except LinAlgError:
            return None

    def solve(self, point: Curvature, theta: Floats) -> _Step:
        """Step from a point at θ, here or near, against its gradient, along the constraint."""
        likelihood, arrow = self.problem.likelihood, self.block.arrow
        # at a later θ the constraint's gradient is no longer the one that is projected out
        pull = arrow.project(_gradient_along(self.problem, point, theta, self.held))
        reduced = point.gradient_scores - likelihood.by_model(self.cross, pull)
        scores = -self.block.solve(reduced)
        abilities = -pull - arrow.project(likelihood.times_rows(self.cross, scores))
        free = ~self.held
        own = float(np.sum(pull[free] ** 2 / arrow.inverse_D[free]))
        return _Step(scores, abilities, own - float(reduced @ scores))


def _gradient_along(problem: Problem, point: Curvature, theta: Floats, held: Mask) -> Floats:
    """Gradient by the abilities plus the constraint's with its multiplier: 0 for free ones at the optimum."""
    if problem.scale is None:
        return point.gradient_abilities
    price = multiplier(problem.scale, point, theta, held)[problem.scale.annotators]
    return point.gradient_abilities + price * problem.scale.gradient(theta)


def _factorise(problem: Problem, point: Curvature, theta: Floats, held: Mask, *, exact: bool) -> _System | None:
    """Return the system, or None where its Hessian is not positive definite."""
    try:
        return _System(problem, point, theta, held, exact=exact)
    except LinAlgError:
        return None


def _with_held(problem: Problem, step: _Step, point: Curvature, held: Mask) -> _Step:
    """Send an ability near its cap and pushed beyond it there, by a scaled gradient step of its own."""
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
    # trial points are brought back on the constraint: what counts is the slope along it
    gradient = _gradient_along(problem, point, theta, held)
    noise = ROUNDING * math.sqrt(len(point.cross)) * abs(point.value)
    length = 1.0
    for _ in range(MAX_HALVINGS):
        new_R, new_theta = _moved(problem, R, theta, step, length)
        slope = point.gradient_scores @ (new_R - R) + gradient @ (new_theta - theta)
        new_R, new_theta = _normalise(problem, new_R, new_theta)
        new = problem.likelihood.expand(new_R, new_theta, exact=exact)
        # a decrease below the objective's own rounding cannot be seen, and need not be
        if step.decrement <= noise or (slope < 0 and new.value <= point.value + SUFFICIENT_DECREASE * slope + noise):
            return new_R, new_theta, new
        length /= 2.0
    return None


def _moved(problem: Problem, R: Floats, theta: Floats, step: _Step, length: float) -> tuple[Floats, Floats]:
    """Go along a step, no ability beyond the cap."""
    theta = theta + length * step.abilities
    return R + length * step.scores, theta if problem.cap is None else np.minimum(theta, problem.cap)


def _held(problem: Problem, theta: Floats, point: Curvature) -> Mask:
    """Abilities at (or within reach of) the cap that the gradient pushes beyond it; all where θ is fixed."""
    if problem.scale is None:
        return np.ones(len(theta), dtype=bool)
    nobody = np.zeros(len(theta), dtype=bool)
    if problem.cap is None:
        return nobody
    gradient = _gradient_along(problem, point, theta, theta >= problem.cap)
    reach = np.where(point.D > 0, -gradient / np.where(point.D > 0, point.D, 1.0), np.inf)
    return (gradient < 0) & (theta >= problem.cap - np.minimum(1e-3, np.abs(reach)))


def _blocked(problem: Problem, theta: Floats, step: _Step, held: Mask) -> Mask:
    """Abilities at the cap that were free to leave it downwards, while the step would take them beyond it."""
    if problem.cap is None or problem.scale is None:
        return np.zeros(len(theta), dtype=bool)
    return ~held & (theta >= problem.cap) & (step.abilities > 0)


def _normalise(problem: Problem, R: Floats, theta: Floats) -> tuple[Floats, Floats]:
    """Move along the flat directions to where convention wants R and θ, within the cap."""
    R = centre(problem, R)
    if problem.scale is None:
        return R, theta
    return problem.scale.normalise(R, theta, problem.cap, free_sign=problem.likelihood.precision == 0)


def centre(problem: Problem, R: Floats) -> Floats:
    """Take every component's mean out of the scores."""
    component = problem.component
    members = np.bincount(component)
    centred: Floats = R - (sum_by(component, R, len(members)) / np.maximum(members, 1))[component]
    return centred
