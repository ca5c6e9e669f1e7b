"""The solver where many abilities are at the cap: slower than `app.rating.solver.newton`, but it converges there."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError

from app.rating.data.arrays import Floats, Mask
from app.rating.data.threads import one_blas_thread
from app.rating.errors import NotConvergedError
from app.rating.solver.arrow import Block, Problem
from app.rating.solver.likelihood import Curvature
from app.rating.solver.newton import CONVERGED, LAST_STEP, NEAR_EACH, ROUNDING, SUFFICIENT_DECREASE, Optimum, centre
from app.rating.solver.scale import WIDTH, Scale

MAX_ITERATIONS = 100
MAX_HALVINGS = 40
FREE_ROUNDS = 10  # in which abilities may leave the cap again; later they can only join it, so the rounds end
ROUNDS = 60
SATISFIED = 1e-9  # of the constraint, for each annotator


@dataclass(frozen=True)
class _Step:
    scores: Floats
    abilities: Floats
    multiplier: Floats  # of each group's constraint, at the end of the step
    decrement: float  # dᵀHd: twice the decrease that the quadratic model predicts


@one_blas_thread()
def minimise_capped(problem: Problem, R: Floats, theta: Floats) -> Optimum:
    """Minimise the objective over R and θ ≤ cap, typical θ = 1, by sequential quadratic programming.

    `minimise` moves along the constraint and clips at the cap. Where the cap holds many annotators that finds no
    decrease, because every clipped ability moves the typical one. Here each step solves the quadratic problem with the
    constraint and all caps, by a primal-dual active set on the same arrow.

    Parameters
    ----------
    R, theta : start, shapes (n_models,) and (n_annotators,)

    Raises
    ------
    NotConvergedError
        Not converged after 100 iterations, no step decreases the merit function, or the quadratic problem has no
        solution: a block is singular, or the linearised constraint cannot hold even with every ability at the cap.

    References
    ----------
    Nocedal and Wright, Numerical Optimization, 2nd ed., algorithm 18.3 with the ℓ₁ merit function (18.27);
    Hintermüller, Ito and Kunisch (2002) for the active set.
    """
    scale, cap = problem.scale, problem.cap
    if scale is None or cap is None:
        raise ValueError("minimise_capped needs a cap and a scale; use minimise")
    theta = np.minimum(theta, cap)
    R, theta = _restored(problem, scale, cap, R, theta)
    held, last, exact, penalty = np.zeros(len(theta), dtype=bool), np.inf, False, 0.0
    for iteration in range(MAX_ITERATIONS):
        point = problem.likelihood.expand(R, theta, exact=exact)
        found = _solve(problem, scale, cap, point, theta, held, exact=exact)
        if found is None and exact:
            exact = False
            point = problem.likelihood.expand(R, theta, exact=False)
            found = _solve(problem, scale, cap, point, theta, held, exact=False)
        if found is None:
            raise NotConvergedError(f"the quadratic problem has no solution at iteration {iteration + 1}", R, theta)
        step, held = found
        satisfied = bool(np.all(np.abs(_violation(scale, theta)) <= SATISFIED * scale.sum(np.ones(len(theta)))))
        if satisfied and (step.decrement <= CONVERGED or (LAST_STEP >= step.decrement >= 0.1 * last)):
            end = point if exact else problem.likelihood.expand(R, theta, exact=True)
            return Optimum(R, theta, end.value, iteration + 1, step.decrement, end)
        # large enough that a step towards the constraint always decreases the merit function
        penalty = max(penalty, 2.0 * float(np.abs(step.multiplier).max()) * WIDTH)
        moved = _search(problem, scale, cap, point, R, theta, step, penalty)
        if moved is None:
            break
        R, theta = moved
        exact, last = step.decrement < NEAR_EACH * (len(R) + len(theta)), step.decrement
    message = f"not converged after {iteration + 1} iterations at the ability cap (decrement {step.decrement:.1e})"
    raise NotConvergedError(message, R, theta)


def _violation(scale: Scale, theta: Floats) -> Floats:
    """Return Σ tanh((θ − 1)/0.3) of each group."""
    return scale.sum(np.tanh((theta - 1.0) / WIDTH))


def _solve(
    problem: Problem, scale: Scale, cap: float, point: Curvature, theta: Floats, held: Mask, *, exact: bool
) -> tuple[_Step, Mask] | None:
    """Solve the quadratic problem at a point: the step and the abilities at the cap; None without solution."""
    room = cap - theta
    for attempt in range(ROUNDS):
        try:
            block = Block(problem, point, theta, held, exact=exact)
            step = _newton(problem, scale, block, point, theta, held, np.where(held, room, 0.0))
        except LinAlgError:
            return None
        beyond = ~held & (step.abilities > room + 1e-12)
        leaving = np.zeros_like(held)
        if attempt < FREE_ROUNDS:
            B_dR = problem.likelihood.times_rows(point.cross, step.scores)
            slope = point.gradient_abilities + B_dR + point.D * step.abilities
            slope += step.multiplier[scale.annotators] * scale.gradient(theta)
            leaving = held & (slope > 1e-9 * (1.0 + np.abs(point.gradient_abilities)))
        if not beyond.any() and not leaving.any():
            return step, held
        held = (held | beyond) & ~leaving
        if held.all():
            return None
    return None


def _newton(
    problem: Problem, scale: Scale, block: Block, point: Curvature, theta: Floats, held: Mask, room: Floats
) -> _Step:
    """Return the step that moves the held abilities to the cap and the linearised constraint to 0."""
    likelihood, arrow = problem.likelihood, block.arrow
    v = scale.gradient(theta)
    size = np.where(arrow.size > 0, arrow.size, np.inf)
    # the free abilities must compensate for this along D⁻¹v
    missing = -(scale.sum(v * room) + WIDTH * _violation(scale, theta)) / size
    forced = np.where(held, room, arrow.v_over_D * missing[scale.annotators])
    projected = arrow.project(np.where(held, 0.0, point.gradient_abilities))
    reduced = point.gradient_scores - likelihood.by_model(point.cross, projected - forced)
    scores = -block.solve(reduced)
    along = likelihood.times_rows(point.cross, scores)
    abilities = np.where(held, room, forced - projected - arrow.project(np.where(held, 0.0, along)))
    multiplier = -(scale.sum(arrow.v_over_D * (point.gradient_abilities + along)) / size + missing)
    lagrangian = point.gradient_abilities + multiplier[scale.annotators] * v
    decrement = -float(point.gradient_scores @ scores + lagrangian @ abilities)
    return _Step(scores, abilities, multiplier, max(decrement, 0.0))


def _search(
    problem: Problem, scale: Scale, cap: float, point: Curvature, R: Floats, theta: Floats, step: _Step, penalty: float
) -> tuple[Floats, Floats] | None:
    """Backtrack until the merit function decreases enough; None where it never does."""
    away = float(np.abs(_violation(scale, theta)).sum())
    slope = point.gradient_scores @ step.scores + point.gradient_abilities @ step.abilities - penalty * away
    noise = ROUNDING * math.sqrt(len(point.cross)) * abs(point.value)
    length = 1.0
    for _ in range(MAX_HALVINGS):
        new_R, new_theta = R + length * step.scores, np.minimum(theta + length * step.abilities, cap)
        new_R, new_theta = _restored(problem, scale, cap, new_R, new_theta)
        value = problem.likelihood.expand(new_R, new_theta, exact=False).value
        value += penalty * float(np.abs(_violation(scale, new_theta)).sum())
        if (
            step.decrement <= noise
            or value <= point.value + penalty * away + SUFFICIENT_DECREASE * length * slope + noise
        ):
            return new_R, new_theta
        length /= 2.0
    return None


def _restored(problem: Problem, scale: Scale, cap: float, R: Floats, theta: Floats) -> tuple[Floats, Floats]:
    """Scale the abilities below the cap so that the constraint holds, where that is possible."""
    new_R, new_theta = scale.normalise(R, theta, cap, free_sign=False)
    if np.any((theta >= cap) & (new_theta < cap)):  # abilities at the cap had to move: leave it to the next step
        new_R, new_theta = R, theta
    return centre(problem, new_R), new_theta
