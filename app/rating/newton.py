from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from app.rating.errors import NotConvergedError
from app.rating.likelihood import Curvature, Likelihood
from app.rating.sums import Floats, sum_by

Mask = NDArray[np.bool_]

MAX_ITERATIONS = 200
MAX_HALVINGS = 40
SUFFICIENT_DECREASE = 1e-4
NEAR = 0.5  # below this squared Newton decrement the observed Hessian takes over from Fisher's
LAST = 1e-8  # below this one a step may be the last: what is left after it is measured
SETTLED = 1e-18  # squared Newton decrement at which steps are about 1e-9 standard errors long


@dataclass(frozen=True)
class Flat:
    """Directions that change no probability, which the solver fixes by convention.

    Attributes
    ----------
    component : of each model; a shift of one component's scores changes nothing, the mean of each is kept at 0
    scale_group : of each model, for an objective without prior: within a group (R, θ) → (cR, θ/c) changes nothing,
        the root mean square of θ is kept at 1; None with a prior
    annotator_group : the same for each annotator
    """

    component: NDArray[np.int64]
    scale_group: NDArray[np.int64] | None = None
    annotator_group: NDArray[np.int64] | None = None


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


class _System:
    """The Newton system at one point, abilities eliminated, ready to be solved."""

    def __init__(self, likelihood: Likelihood, point: Curvature, R: Floats, held: Mask, flat: Flat) -> None:
        """Raise LinAlgError where the reduced Hessian is not positive definite."""
        self.likelihood = likelihood
        self.held = held
        if np.any(point.D[~held] <= 0):
            raise LinAlgError("an ability without curvature")
        self.inverse_D = inverse_curvature(point, held)
        S = reduced_hessian(likelihood, point, held)
        typical = float(np.mean(np.diag(point.A)))
        S += typical * shift_projector(flat.component)
        if flat.scale_group is not None:
            for group in np.unique(flat.scale_group):
                direction = np.where(flat.scale_group == group, R, 0.0)
                S += typical * np.outer(direction, direction) / max(float(direction @ direction), 1e-300)
        self.factor = cho_factor(S, lower=True, overwrite_a=True)

    def solve(self, point: Curvature) -> _Step:
        """Step from the point against its gradient."""
        pull = self.inverse_D * point.gradient_abilities
        reduced = point.gradient_scores - self.likelihood.by_model(point.cross, pull)
        scores = -cho_solve(self.factor, reduced)
        abilities = -pull - self.inverse_D * self.likelihood.times_rows(point.cross, scores)
        slope = point.gradient_scores @ scores + np.where(self.held, 0.0, point.gradient_abilities) @ abilities
        return _Step(scores, abilities, float(-slope))


def minimise(
    likelihood: Likelihood,
    R: Floats,
    theta: Floats,
    *,
    flat: Flat,
    fit_abilities: bool = True,
    cap: float | None = None,
    near: bool = False,
) -> Optimum:
    """Minimise the objective jointly over R and θ ≤ cap by Newton's method on its arrow-shaped Hessian.

    Each iteration is one pass over the cells: θ's diagonal block is eliminated (Schur complement), the models' block
    solved by Cholesky, θ substituted back; abilities at the cap whose gradient points beyond it are held there
    (projected Newton, Bertsekas 1982). Fisher scoring far from the optimum and wherever the observed Hessian is not
    positive definite, exact Newton near it, backtracking along the projected path.

    Parameters
    ----------
    R, theta : start, shapes (n_models,) and (n_annotators,)
    flat : the directions in which nothing changes
    near : the start is believed to be near the optimum: begin with the observed Hessian
    fit_abilities : False keeps θ fixed (m-ELO when θ = 1: concave)

    Raises
    ------
    NotConvergedError
        When the gradient and the Newton decrement have not settled after 200 iterations, or no step decreases the
        objective.

    References
    ----------
    Nocedal and Wright, Numerical Optimization, 2nd ed., §3.4; docs/math.md, "The solver".
    """
    R, theta = _normalise(R, theta if cap is None else np.minimum(theta, cap), flat)
    point, exact = likelihood.expand(R, theta, exact=near), near
    for iteration in range(1, MAX_ITERATIONS + 1):
        held = _held(theta, point, cap) if fit_abilities else np.ones(len(theta), dtype=bool)
        try:
            system = _System(likelihood, point, R, held, flat)
        except LinAlgError:
            if not exact:
                raise NotConvergedError(f"the models' block is singular at iteration {iteration}", R, theta) from None
            point, exact = likelihood.expand(R, theta, exact=False), False
            system = _System(likelihood, point, R, held, flat)
        step = _with_held(system.solve(point), point, held) if fit_abilities else system.solve(point)
        exact = step.decrement < NEAR
        found = _search(likelihood, point, R, theta, step, flat, cap, exact=exact)
        if found is None:
            message = f"no step decreases the objective at iteration {iteration} (decrement {step.decrement:.1e})"
            raise NotConvergedError(message, R, theta)
        R, theta, point = found
        if step.decrement < LAST and (cap is None or bool(np.all(theta[held] == cap))):
            left = system.solve(point).decrement
            if left <= SETTLED and (cap is None or not fit_abilities or np.array_equal(held, _held(theta, point, cap))):
                return Optimum(R, theta, point.value, iteration, left)
    message = f"not settled after {MAX_ITERATIONS} iterations (squared Newton decrement {step.decrement:.1e})"
    raise NotConvergedError(message, R, theta)


def reduced_hessian(likelihood: Likelihood, point: Curvature, held: Mask) -> Floats:
    """Schur complement A − Σ_k B_k B_kᵀ/D_k over the abilities that are not held, shape (n_models, n_models)."""
    if held.all():
        return point.A.copy()
    return point.A - likelihood.rows.products(point.cross, np.sqrt(inverse_curvature(point, held)))


def inverse_curvature(point: Curvature, held: Mask) -> Floats:
    """1/D_k, 0 for a held ability, shape (n_annotators,)."""
    return np.where(held, 0.0, 1.0 / np.where(held, 1.0, point.D))


def shift_projector(component: NDArray[np.int64]) -> Floats:
    """Orthogonal projector on the shifts that leave the likelihood unchanged: Σ_c 1_c 1_cᵀ / |c|."""
    same = component[:, None] == component[None, :]
    projector: Floats = same / same.sum(axis=1)
    return projector


def _with_held(step: _Step, point: Curvature, held: Mask) -> _Step:
    """Send an ability near its cap and pushed beyond it there, by a scaled gradient step of its own."""
    movable = held & (point.D > 0)
    own = np.where(movable, -point.gradient_abilities / np.where(movable, point.D, 1.0), 0.0)
    return _Step(step.scores, np.where(held, own, step.abilities), step.decrement)


def _search(
    likelihood: Likelihood, point: Curvature, R: Floats, theta: Floats, step: _Step, flat: Flat, cap: float | None,
    *, exact: bool,
) -> tuple[Floats, Floats, Curvature] | None:  # fmt: skip
    """Backtrack along the projected path until the objective decreases enough; None where it never does."""
    if not step.decrement >= 0:
        return None
    noise = 1e-14 * abs(point.value)
    length = 1.0
    for _ in range(MAX_HALVINGS):
        new_R, new_theta = R + length * step.scores, theta + length * step.abilities
        if cap is not None:
            new_theta = np.minimum(new_theta, cap)
        slope = point.gradient_scores @ (new_R - R) + point.gradient_abilities @ (new_theta - theta)
        new_R, new_theta = _normalise(new_R, new_theta, flat)
        new = likelihood.expand(new_R, new_theta, exact=exact)
        # a decrease below the objective's own rounding cannot be seen, and need not be
        if -slope <= noise or new.value <= point.value + SUFFICIENT_DECREASE * slope + noise:
            return new_R, new_theta, new
        length /= 2.0
    return None


def _held(theta: Floats, point: Curvature, cap: float | None) -> Mask:
    """Abilities at (or within reach of) the cap that the gradient pushes beyond it."""
    if cap is None:
        return np.zeros(len(theta), dtype=bool)
    outward = point.gradient_abilities < 0
    reach = np.where(point.D > 0, -point.gradient_abilities / np.where(point.D > 0, point.D, 1.0), np.inf)
    return outward & (theta >= cap - np.minimum(1e-3, np.abs(reach)))


def _normalise(R: Floats, theta: Floats, flat: Flat) -> tuple[Floats, Floats]:
    """Move along the flat directions to where convention wants R and θ."""
    members = np.bincount(flat.component)
    R = R - (sum_by(flat.component, R, len(members)) / np.maximum(members, 1))[flat.component]
    if flat.scale_group is None or flat.annotator_group is None:
        return R, theta
    size = np.bincount(flat.annotator_group)
    factor = np.sqrt(sum_by(flat.annotator_group, theta**2, len(size)) / np.maximum(size, 1))
    factor = np.where(factor > 0, factor, 1.0)
    return R * factor[flat.scale_group], theta / factor[flat.annotator_group]
