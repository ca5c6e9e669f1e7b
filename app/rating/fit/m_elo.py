"""m-ELO, and scores at other fixed abilities. The objective is convex."""

import math

import numpy as np
from scipy.linalg import LinAlgError

from app.rating.arrays import Floats, Indices
from app.rating.errors import NoFiniteScoreError, NotConvergedError
from app.rating.fit.arrow import Block, shift_projector, typical_information
from app.rating.fit.likelihood import Curvature, Likelihood
from app.rating.fit.partitions import centre
from app.rating.fit.result import FitResult
from app.rating.fit.sqp import CONVERGED, ENOUGH, MAX_HALVINGS, MAX_ITERATIONS, ROUNDING, SUFFICIENT_DECREASE
from app.rating.threads import one_blas_thread
from app.rating.votes.cells import Cells
from app.rating.votes.compact import pool_annotators
from app.rating.votes.graph import find_components, find_identified, strong_classes


def fit_m_elo(cells: Cells, component: Indices, start: Floats | None = None) -> FitResult:
    """Maximise ℓ(R) = Σ_cells s·log σ(R_a − R_b) + (n − s)·log σ(R_b − R_a): Bradley-Terry.

    Parameters
    ----------
    cells : every model connected to every other of its component through wins in both directions
    component : component of each model, shape (n_models,)
    start : R to start from; default 0, which is also used where the search from `start` fails

    Returns
    -------
    FitResult
        with θ = 1; unique up to the shift that centring each component removes.

    Raises
    ------
    NoFiniteScoreError
        A model is not so connected: the maximum lies at infinity.
    NotConvergedError

    Notes
    -----
    Concave; works on the pair table, O(n_models²) memory and O(n_models³) per iteration, about 5 to 10 iterations.

    References
    ----------
    Liu et al., Am-ELO, ICML 2025, eq. 4; Bradley and Terry (1952).
    """
    pairs = pool_annotators(cells)
    strong = strong_classes(pairs)
    if len(np.unique(strong)) > len(np.unique(component)):
        largest = find_identified(pairs, find_components(pairs), np.ones(1))
        raise NoFiniteScoreError(np.flatnonzero(~largest))
    if start is not None and np.isfinite(start).all():
        try:
            return fit_m_elo_unchecked(cells, component, start)
        except NotConvergedError:
            pass  # the likelihood is flat so far out
    return fit_m_elo_unchecked(cells, component)


def fit_m_elo_unchecked(cells: Cells, component: Indices, start: Floats | None = None) -> FitResult:
    """Maximise as `fit_m_elo`; where the maximum lies at infinity, stop far out, as a start for other fits."""
    R = np.zeros(cells.n_models) if start is None else start
    pooled = minimise_scores(Likelihood(pool_annotators(cells), None), component, R, np.ones(1))
    theta, no_annotator = np.ones(cells.n_annotators), np.zeros(cells.n_annotators, dtype=bool)
    return FitResult(pooled.R, theta, no_annotator, pooled.log_likelihood, pooled.iterations, no_annotator)


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
    R, last, shifts = centre(R, component), np.inf, shift_projector(component)
    point = likelihood.expand(R, theta)
    for iteration in range(MAX_ITERATIONS):
        try:
            step: Floats = -Block(point.profile + typical_information(point.A) * shifts).solve(point.gradient_scores)
        except LinAlgError:
            raise NotConvergedError(f"the Hessian is singular at iteration {iteration + 1}", R, theta) from None
        decrement = -float(step @ point.gradient_scores)
        left = decrement * min(decrement / last, 1.0) ** 2 if iteration else decrement
        if left <= CONVERGED or decrement <= ENOUGH:
            R = centre(R + step, component)
            point, no_annotator = likelihood.expand(R, theta), np.zeros(len(theta), dtype=bool)
            return FitResult(R, theta, no_annotator, -point.value, iteration + 1, no_annotator)
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
