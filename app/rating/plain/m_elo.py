"""m-ELO, and scores at other known abilities. The objective is convex."""

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from app.rating.arrays import Floats, Indices
from app.rating.errors import NoFiniteScoreError, NotConvergedError
from app.rating.fitted import FitResult
from app.rating.plain.likelihood import Likelihood
from app.rating.threads import one_blas_thread
from app.rating.votes.cells import Cells, pool_annotators
from app.rating.votes.graph import find_components, find_identified

MOST_ITERATIONS = 200
CONVERGED = 1e-9  # Newton decrement from which one more step is exact but for its square
MOST_HALVINGS = 40
SUFFICIENT = 1e-4  # share of the decrement by which a step lowers the objective
ROUNDING = 1e-13  # of the objective: no difference


@one_blas_thread()
def fit_m_elo(cells: Cells) -> FitResult:
    """Maximise ℓ(R) = Σ_cells s·log σ(R_a − R_b) + (n − s)·log σ(R_b − R_a): Bradley-Terry.

    Parameters
    ----------
    cells : every model connected to every other of its component through wins in both directions

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
    Works on the pair table, O(n_models²) memory and O(n_models³) per iteration, about 5 to 10 iterations.

    References
    ----------
    Liu et al., Am-ELO, ICML 2025, eq. 4; Bradley and Terry (1952).
    """
    pairs = pool_annotators(cells)
    components = find_components(pairs)
    identified = find_identified(pairs, components, np.ones(1))
    if not identified.all():
        raise NoFiniteScoreError(np.flatnonzero(~identified))
    R, value, iterations = maximise_scores(Likelihood(pairs), np.ones(1), components.label, np.zeros(cells.n_models))
    return FitResult(R, np.ones(cells.n_annotators), -value, iterations)


def maximise_scores(likelihood: Likelihood, theta: Floats, component: Indices, R: Floats) -> tuple[Floats, float, int]:
    """Maximise ℓ(R) at known abilities by Newton's method with backtracking.

    Parameters
    ----------
    component : of each model; the mean of each component's scores is 0
    R : start, shape (n_models,)

    Returns
    -------
    The scores, −ℓ there, and the number of iterations.

    Raises
    ------
    NotConvergedError
        The Hessian is singular, no step decreases the objective, or 200 iterations do not converge: the maximum lies at
        infinity.

    References
    ----------
    Nocedal and Wright, Numerical Optimization, 2nd ed., §3.4.
    """
    shifts = shift_projector(component)
    R = R - shifts @ R
    point = likelihood.expand(R, theta)
    for iteration in range(1, MOST_ITERATIONS + 1):
        try:
            step = -cho_solve(cho_factor(point.A + typical(point.A) * shifts), point.gradient_scores)
        except LinAlgError:
            raise NotConvergedError(f"the Hessian is singular at iteration {iteration}", R, theta) from None
        decrement = -float(step @ point.gradient_scores)
        if decrement <= CONVERGED:
            R = R + step - shifts @ (R + step)
            return R, likelihood.value(R, theta), iteration
        length = 1.0
        for _ in range(MOST_HALVINGS):
            enough = point.value * (1.0 + ROUNDING) - SUFFICIENT * length * decrement
            if likelihood.value(R + length * step, theta) <= enough:
                break
            length /= 2.0
        else:
            raise NotConvergedError(f"no step decreases the objective at iteration {iteration}", R, theta)
        R = R + length * step
        point = likelihood.expand(R, theta)
    raise NotConvergedError(f"not converged after {MOST_ITERATIONS} iterations", R, theta)


def shift_projector(component: Indices) -> Floats:
    """Return the projector onto a shift of every component, shape (n_models, n_models)."""
    together = component[:, None] == component
    projector: Floats = together / together.sum(axis=1)
    return projector


def typical(matrix: Floats) -> float:
    """Return the mean of a diagonal, at least a tiny number: what gives a shift the size of other directions."""
    return max(float(np.trace(matrix)) / max(len(matrix), 1), 1e-300)
