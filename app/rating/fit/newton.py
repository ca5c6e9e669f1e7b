"""Scores at fixed abilities: m-ELO, and slices of the votes. The objective is convex."""

import math

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from app.rating.arrays import Floats, Indices
from app.rating.errors import NotConvergedError
from app.rating.fit.arrow import Problem, shift_projector
from app.rating.fit.likelihood import Curvature, Likelihood
from app.rating.fit.partitions import centre
from app.rating.fit.result import FitResult
from app.rating.fit.sqp import CONVERGED, ENOUGH, MAX_HALVINGS, MAX_ITERATIONS, ROUNDING, SUFFICIENT_DECREASE
from app.rating.threads import one_blas_thread


@one_blas_thread()
def minimise_scores(likelihood: Likelihood, component: Indices, R: Floats, theta: Floats) -> FitResult:
    """Minimise −ℓ(R) at fixed abilities by Newton's method with backtracking.

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
    R, last, shifts = centre(R, component), np.inf, shift_projector(component)
    point = likelihood.expand(R, theta)
    for iteration in range(MAX_ITERATIONS):
        try:
            factor = cho_factor(point.A + float(np.diag(point.A).mean()) * shifts, lower=True)
        except LinAlgError:
            raise NotConvergedError(f"the Hessian is singular at iteration {iteration + 1}", R, theta) from None
        step: Floats = -cho_solve(factor, point.gradient_scores)
        decrement = -float(step @ point.gradient_scores)
        left = decrement * min(decrement / last, 1.0) ** 2 if iteration else decrement
        if left <= CONVERGED or decrement <= ENOUGH:
            R = centre(R + step, component)
            point, no_annotator = likelihood.expand(R, theta), np.zeros(len(theta), dtype=bool)
            end = Problem(likelihood, component, None), point
            return FitResult(R, theta, no_annotator, -point.value, iteration + 1, no_annotator, end)
        found = _search(likelihood, component, point, R, theta, step, decrement)
        if found is None:
            message = f"no step decreases the objective (decrement {decrement:.1e}) at iteration {iteration + 1}"
            raise NotConvergedError(message, R, theta)
        (R, point), last = found, decrement
    message = f"not converged after {MAX_ITERATIONS} iterations (squared Newton decrement {last:.1e})"
    raise NotConvergedError(message, R, theta)


def _search(
    likelihood: Likelihood, component: Indices, point: Curvature, R: Floats, theta: Floats, step: Floats,
    decrement: float,
) -> tuple[Floats, Curvature] | None:  # fmt: skip
    """Halve the step until the objective decreases enough; None where it never does."""
    noise = ROUNDING * math.sqrt(len(point.cross)) * abs(point.value)
    length = 1.0
    for _ in range(MAX_HALVINGS):
        new_R = centre(R + length * step, component)
        new = likelihood.expand(new_R, theta)
        # a decrease below the rounding error of the objective cannot be measured
        if decrement <= noise or new.value <= point.value - SUFFICIENT_DECREASE * length * decrement + noise:
            return new_R, new
        length /= 2.0
    return None
