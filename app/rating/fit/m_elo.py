"""m-ELO, and scores at other fixed abilities. The objective is convex."""

import math

import numpy as np
from scipy.linalg import LinAlgError

from app.rating.arrays import Floats, Indices
from app.rating.errors import NotConvergedError
from app.rating.fit.arrow import Block, shift_projector, typical_information
from app.rating.fit.likelihood import Curvature, Likelihood
from app.rating.fitted import FitResult
from app.rating.threads import one_blas_thread

MAX_ITERATIONS, MAX_HALVINGS, SUFFICIENT_DECREASE = 200, 40, 1e-4
ROUNDING, CONVERGED, ENOUGH = 4e-16, 1e-18, 1e-14


@one_blas_thread()
def minimise_scores(likelihood: Likelihood, component: Indices, R: Floats, theta: Floats) -> FitResult:
    """Minimise −ℓ(R) at fixed abilities, leans at their best, by Newton's method with backtracking.

    Parameters
    ----------
    likelihood : without a prior
    component : of each model; the mean of each component's scores is 0
    R : start, shape (n_models,)
    theta : shape (n_annotators,)

    Raises
    ------
    NotConvergedError
        The Hessian is singular, no step decreases the objective, or 200 iterations do not converge: the maximum of ℓ
        lies at infinity.

    References
    ----------
    Nocedal and Wright, Numerical Optimization, 2nd ed., §3.4.
    """
    last, shifts = np.inf, shift_projector(component)
    R = R - shifts @ R
    point = likelihood.expand(R, theta)
    for iteration in range(MAX_ITERATIONS):
        try:
            step: Floats = -Block(point.profile + typical_information(point.A) * shifts).solve(point.gradient_scores)
        except LinAlgError:
            raise NotConvergedError(f"the Hessian is singular at iteration {iteration + 1}", R, theta) from None
        decrement = -float(step @ point.gradient_scores)
        left = decrement * min(decrement / last, 1.0) ** 2 if iteration else decrement
        if left <= CONVERGED or decrement <= ENOUGH:
            R = R + step - shifts @ (R + step)
            point = likelihood.expand(R, theta)
            return FitResult(R, theta, -point.value, iteration + 1)
        found = _search(likelihood, point, R, theta, step, decrement)
        if found is None:
            message = f"no step decreases the objective (decrement {decrement:.1e}) at iteration {iteration + 1}"
            raise NotConvergedError(message, R, theta)
        (R, point), last = found, decrement
    message = f"not converged after {MAX_ITERATIONS} iterations (squared Newton decrement {last:.1e})"
    raise NotConvergedError(message, R, theta)


def _search(
    likelihood: Likelihood, point: Curvature, R: Floats, theta: Floats, step: Floats, decrement: float
) -> tuple[Floats, Curvature] | None:  # fmt: skip
    """Halve the step until the objective decreases enough; None where it never does."""
    noise = ROUNDING * math.sqrt(len(point.cross)) * abs(point.value)
    length = 1.0
    for _ in range(MAX_HALVINGS):
        new_R = R + length * step
        new = likelihood.expand(new_R, theta)
        # a decrease below the rounding error of the objective cannot be measured
        if decrement <= noise or new.value <= point.value - SUFFICIENT_DECREASE * length * decrement + noise:
            return new_R, new
        length /= 2.0
    return None
