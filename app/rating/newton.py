from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from app.rating.errors import NotConvergedError
from app.rating.likelihood import Curvature, Likelihood
from app.rating.scale import Scale
from app.rating.sums import Floats, sum_by

Mask = NDArray[np.bool_]

MAX_ITERATIONS = 200
MAX_HALVINGS = 40
SUFFICIENT_DECREASE = 1e-4
NEAR = 0.5  # below this squared Newton decrement the observed Hessian takes over from Fisher's
SLOW = 0.5  # so does it where a step of Fisher's leaves more than this of the last decrement
LAST = 1e-8  # below this one a step may be the last: what is left after it is measured
HOPELESS = 100.0  # natural units between two scores: σ(100) is 1 long before
SETTLED = 1e-18  # squared Newton decrement at which steps are about 1e-9 standard errors long


@dataclass(frozen=True)
class Problem:
    """What is minimised, and over what.

    Attributes
    ----------
    likelihood : the objective
    component : of each model; a shift of one component's scores changes nothing, the mean of each is kept at 0
    scale : the constraint on the abilities; None keeps θ fixed (m-ELO when θ = 1: concave)
    cap : upper bound on θ
    """

    likelihood: Likelihood
    component: NDArray[np.int64]
    scale: Scale | None
    cap: float | None = None


@dataclass(frozen=True)
class Optimum:
    """A point at which the gradient is settled: the objective's `value` and squared Newton `decrement` there."""

    R: Floats
    theta: Floats
    value: float
    iterations: int
    decrement: float


@dataclass(frozen=True)
class _Step:
    scores: Floats
    abilities: Floats
    decrement: float  # of the free variables: gᵀ H⁻¹ g


class Arrow:
    """The arrow-shaped Newton system at one point, abilities eliminated.

    With D⁻¹ replaced by Q = D⁻¹ − D⁻¹v vᵀD⁻¹/(vᵀD⁻¹v) for each scale group, v the constraint's gradient, steps stay on
    the constraint (docs/math.md, "The arrow").

    Attributes
    ----------
    inverse_D : 1/D_k, 0 for a held ability, shape (n_annotators,)
    v_over_D : v_k/D_k, shape (n_annotators,)
    z : Σ_k of a group B_k v_k/D_k, divided by the group's vᵀD⁻¹v, shape (groups, n_models)
    size : vᵀD⁻¹v of each group, shape (groups,)
    S : reduced Hessian A − BᵀQB, shape (n_models, n_models); singular along the shifts
    """

    def __init__(self, problem: Problem, point: Curvature, theta: Floats, held: Mask, *, exact: bool) -> None:
        """Raise LinAlgError where an ability that is not held has no curvature."""
        self.likelihood, self.scale = problem.likelihood, problem.scale
        D = point.D
        if self.scale is not None and exact:
            price = multiplier(self.scale, point, theta, held)[self.scale.annotators]
            D = np.maximum(D + price * self.scale.curvature(theta), 0.1 * D)
        if np.any(D[~held] <= 0):
            raise LinAlgError("an ability without curvature")
        self.inverse_D = np.where(held, 0.0, 1.0 / np.where(held, 1.0, D))
        self.S = point.A.copy()
        if self.scale is None or held.all():
            self.v_over_D, self.z, self.size = np.zeros(len(theta)), np.zeros((0, len(point.A))), np.zeros(0)
            return
        v = self.scale.gradient(theta)
        self.v_over_D = v * self.inverse_D
        size = self.scale.sum(v * self.v_over_D)
        groups = np.flatnonzero(size > 0)
        total = self.likelihood.by_model(point.cross, self.v_over_D)
        self.z = np.zeros((self.scale.number, len(total)))
        for group in groups:  # a model's cells are all of one group
            self.z[group] = np.where(self.scale.models == group, total, 0.0) / size[group]
        self.S -= self.likelihood.rows.products(point.cross, np.sqrt(self.inverse_D))
        self.S += (self.z[groups].T * size[groups]) @ self.z[groups]
        self.size = size

    def project(self, gradient: Floats) -> Floats:
        """Q times a value per annotator."""
        out = self.inverse_D * gradient
        if self.scale is None or len(self.z) == 0:
            return out
        along = self.scale.sum(self.v_over_D * gradient)
        share = np.where(self.size > 0, along / np.where(self.size > 0, self.size, 1.0), 0.0)
        return out - self.v_over_D * share[self.scale.annotators]


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
        objective.

    References
    ----------
    Nocedal and Wright, Numerical Optimization, 2nd ed., §3.4; docs/math.md, "The solver".
    """
    R, theta = _normalise(problem, R, theta)
    point, exact = problem.likelihood.expand(R, theta, exact=near), near
    decrement, stuck = np.inf, False
    for iteration in range(1, MAX_ITERATIONS + 1):
        held = _held(problem, theta, point)
        system = _factorise(problem, point, theta, held, exact=exact)
        if system is None and exact:
            point, exact = problem.likelihood.expand(R, theta, exact=False), False
            system = _factorise(problem, point, theta, held, exact=False)
        if system is None:
            raise NotConvergedError(f"the models' block is singular at iteration {iteration}", R, theta)
        step = system.solve(point)
        blocked = _blocked(problem, theta, step, held)
        if blocked.any():
            held |= blocked
            system = _factorise(problem, point, theta, held, exact=False) or system
            step = system.solve(point)
        exact = step.decrement < NEAR or step.decrement > SLOW * decrement
        decrement = step.decrement
        found = _search(problem, point, R, theta, _with_held(problem, step, point, held), exact=exact)
        if found is None and not stuck:
            # once more from here, by Fisher's Hessian, before giving up
            point, exact, decrement, stuck = problem.likelihood.expand(R, theta, exact=False), False, np.inf, True
            continue
        if found is None:
            message = f"no step decreases the objective at iteration {iteration} (decrement {step.decrement:.1e})"
            raise NotConvergedError(message, R, theta)
        stuck = False
        R, theta, point = found
        if float(np.ptp(R)) > HOPELESS:
            raise NotConvergedError(f"a score runs off to infinity by iteration {iteration}", R, theta)
        if step.decrement < LAST and (problem.cap is None or bool(np.all(theta[held] == problem.cap))):
            left = system.solve(point).decrement
            if left <= SETTLED and np.array_equal(held, _held(problem, theta, point)):
                return Optimum(R, theta, point.value, iteration, left)
    message = f"not settled after {MAX_ITERATIONS} iterations (squared Newton decrement {decrement:.1e})"
    raise NotConvergedError(message, R, theta)


def multiplier(scale: Scale, point: Curvature, theta: Floats, held: Mask) -> Floats:
    """Return the Lagrange multiplier of each group's scale: g_θ + λv is 0 for free abilities at the optimum."""
    v = np.where(held | (point.D <= 0), 0.0, scale.gradient(theta))
    weight = v / np.where(point.D > 0, point.D, 1.0)
    size = scale.sum(v * weight)
    along = scale.sum(weight * point.gradient_abilities)
    return np.where(size > 0, -along / np.where(size > 0, size, 1.0), 0.0)


def shift_projector(component: NDArray[np.int64]) -> Floats:
    """Orthogonal projector on the shifts that leave the likelihood unchanged: Σ_c 1_c 1_cᵀ / |c|."""
    same = component[:, None] == component[None, :]
    projector: Floats = same / same.sum(axis=1)
    return projector


class _System:
    """A factorised Arrow: solves for Newton steps."""

    def __init__(self, problem: Problem, point: Curvature, theta: Floats, held: Mask, *, exact: bool) -> None:
        """Raise LinAlgError where the reduced Hessian is not positive definite."""
        self.problem, self.held, self.theta = problem, held, theta
        self.arrow = Arrow(problem, point, theta, held, exact=exact)
        typical = float(np.mean(np.diag(point.A)))
        self.factor = cho_factor(self.arrow.S + typical * shift_projector(problem.component), lower=True)

    def solve(self, point: Curvature) -> _Step:
        """Step from the point against its gradient, along the constraint."""
        likelihood = self.problem.likelihood
        pull = self.arrow.project(point.gradient_abilities)
        reduced = point.gradient_scores - likelihood.by_model(point.cross, pull)
        scores = -cho_solve(self.factor, reduced)
        abilities = -pull - self.arrow.project(likelihood.times_rows(point.cross, scores))
        free = ~self.held
        own = float(np.sum(pull[free] ** 2 / self.arrow.inverse_D[free]))
        return _Step(scores, abilities, own - float(reduced @ scores))


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
    problem: Problem, point: Curvature, R: Floats, theta: Floats, step: _Step, *, exact: bool
) -> tuple[Floats, Floats, Curvature] | None:
    """Backtrack along the projected path until the objective decreases enough; None where it never does."""
    if not step.decrement >= 0:
        return None
    noise = 1e-14 * abs(point.value)
    length = 1.0
    for _ in range(MAX_HALVINGS):
        new_R, new_theta = R + length * step.scores, theta + length * step.abilities
        if problem.cap is not None:
            new_theta = np.minimum(new_theta, problem.cap)
        slope = point.gradient_scores @ (new_R - R) + point.gradient_abilities @ (new_theta - theta)
        new_R, new_theta = _normalise(problem, new_R, new_theta)
        new = problem.likelihood.expand(new_R, new_theta, exact=exact)
        # a decrease below the objective's own rounding cannot be seen, and need not be
        if step.decrement <= noise or (slope < 0 and new.value <= point.value + SUFFICIENT_DECREASE * slope + noise):
            return new_R, new_theta, new
        length /= 2.0
    return None


def _held(problem: Problem, theta: Floats, point: Curvature) -> Mask:
    """Abilities at (or within reach of) the cap that the gradient pushes beyond it; all where θ is fixed."""
    if problem.scale is None:
        return np.ones(len(theta), dtype=bool)
    nobody = np.zeros(len(theta), dtype=bool)
    if problem.cap is None:
        return nobody
    price = multiplier(problem.scale, point, theta, theta >= problem.cap)
    gradient = point.gradient_abilities + price[problem.scale.annotators] * problem.scale.gradient(theta)
    reach = np.where(point.D > 0, -gradient / np.where(point.D > 0, point.D, 1.0), np.inf)
    return (gradient < 0) & (theta >= problem.cap - np.minimum(1e-3, np.abs(reach)))


def _blocked(problem: Problem, theta: Floats, step: _Step, held: Mask) -> Mask:
    """Abilities at the cap that were free to leave it downwards, while the step would take them beyond it."""
    if problem.cap is None or problem.scale is None:
        return np.zeros(len(theta), dtype=bool)
    return ~held & (theta >= problem.cap) & (step.abilities > 0)


def _normalise(problem: Problem, R: Floats, theta: Floats) -> tuple[Floats, Floats]:
    """Move along the flat directions to where convention wants R and θ, within the cap."""
    component = problem.component
    members = np.bincount(component)
    R = R - (sum_by(component, R, len(members)) / np.maximum(members, 1))[component]
    if problem.scale is None:
        return R, theta
    return problem.scale.normalise(R, theta, problem.cap, free_sign=problem.likelihood.precision == 0)
