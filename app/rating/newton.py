from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from app.rating.errors import NotConvergedError
from app.rating.likelihood import Curvature, Likelihood
from app.rating.sums import Floats

MAX_ITERATIONS = 200
MAX_HALVINGS = 40
SUFFICIENT_DECREASE = 1e-4
NEAR = 0.5  # below this squared Newton decrement the observed Hessian takes over from Fisher's
SETTLED = 1e-18  # squared Newton decrement at which steps are about 1e-9 standard errors long


@dataclass(frozen=True)
class Optimum:
    """Where `minimise` stopped: a stationary point, or it would have raised.

    `decrement` is the squared Newton decrement there, in units of log-likelihood.
    """

    R: Floats
    theta: Floats
    iterations: int
    decrement: float


@dataclass(frozen=True)
class _Step:
    scores: Floats
    abilities: Floats
    decrement: float  # of the reduced (free) problem: gᵀ H⁻¹ g


def minimise(
    likelihood: Likelihood,
    R: Floats,
    theta: Floats,
    *,
    component: NDArray[np.int64],
    scale_group: NDArray[np.int64] | None,
    fit_abilities: bool = True,
    cap: float | None = None,
) -> Optimum:
    """Minimise the objective jointly over R and θ ≤ cap by Newton's method on its arrow-shaped Hessian.

    Each iteration is one pass over the cells: θ's diagonal block is eliminated (Schur complement), the models' block
    solved by Cholesky, θ substituted back; abilities at the cap whose gradient points beyond it are held there
    (projected Newton, Bertsekas 1982). Fisher scoring far from the optimum and wherever the observed Hessian is not
    positive definite, exact Newton near it, backtracking along the projected path.

    Parameters
    ----------
    R, theta : start, shapes (n_models,) and (n_annotators,)
    component : component of each model; scores shift freely within one, the mean of each is kept at 0
    scale_group : for an objective without prior, the group of each model within which (R, θ) → (cR, θ/c) changes
        nothing; None with a prior. Annotators' groups follow from their models.
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
    R, theta = _centre(R, component), theta.copy()
    if cap is not None:
        theta = np.minimum(theta, cap)
    decrement = np.inf
    for iteration in range(1, MAX_ITERATIONS + 1):
        near = decrement < NEAR
        point = likelihood.expand(R, theta, exact=near)
        held = _held(theta, point, cap) if fit_abilities else np.ones(len(theta), dtype=bool)
        step = _newton_step(point, R, held, component, scale_group, pinned=not fit_abilities)
        if step is None and near:
            point = likelihood.expand(R, theta, exact=False)
            step = _newton_step(point, R, held, component, scale_group, pinned=not fit_abilities)
        if step is None:
            raise NotConvergedError(f"the models' block is singular at iteration {iteration}", R, theta)
        decrement = step.decrement
        R, theta, moved = _search(likelihood, point, R, theta, step, cap)
        R = _centre(R, component)
        if scale_group is not None:
            R, theta = _rescale(likelihood, R, theta, scale_group)
        if decrement <= SETTLED and _at_cap_settled(theta, held, cap):
            return Optimum(R, theta, iteration, decrement)
        if not moved:
            message = (
                f"no step decreases the objective at iteration {iteration} (squared Newton decrement {decrement:.1e})"
            )
            raise NotConvergedError(message, R, theta)
    message = f"not settled after {MAX_ITERATIONS} iterations (squared Newton decrement {decrement:.1e})"
    raise NotConvergedError(message, R, theta)


def reduced_hessian(point: Curvature, held: NDArray[np.bool_]) -> Floats:
    """Schur complement A − Bᵀ D⁻¹ B over the abilities that are not held, shape (n_models, n_models)."""
    inverse = np.where(held, 0.0, 1.0 / np.where(held, 1.0, point.D))
    scaled = point.B.multiply(inverse[:, None]).tocsr()
    dense: Floats = point.A - (point.B.T @ scaled).toarray()
    return dense


def shift_projector(component: NDArray[np.int64]) -> Floats:
    """Orthogonal projector on the shifts that leave the likelihood unchanged: Σ_c 1_c 1_cᵀ / |c|."""
    same = component[:, None] == component[None, :]
    projector: Floats = same / same.sum(axis=1)
    return projector


def _newton_step(
    point: Curvature,
    R: Floats,
    held: NDArray[np.bool_],
    component: NDArray[np.int64],
    scale_group: NDArray[np.int64] | None,
    *,
    pinned: bool,
) -> _Step | None:
    """Return the Newton step, or None where the reduced Hessian is not positive definite."""
    D = np.where(held, 1.0, point.D)
    if np.any(D <= 0):
        return None
    S = reduced_hessian(point, held)
    typical = float(np.mean(np.diag(point.A)))
    S += typical * shift_projector(component)
    if scale_group is not None:
        for group in np.unique(scale_group):
            direction = np.where(scale_group == group, R, 0.0)
            S += typical * np.outer(direction, direction) / max(float(direction @ direction), 1e-300)
    try:
        factor = cho_factor(S, lower=True)
    except LinAlgError:
        return None
    pull = np.where(held, 0.0, point.gradient_abilities / D)
    scores = -cho_solve(factor, point.gradient_scores - point.B.T @ pull)
    abilities = np.where(held, 0.0, -pull - (point.B @ scores) / D)
    slope = point.gradient_scores @ scores + np.where(held, 0.0, point.gradient_abilities) @ abilities
    if not slope <= 0:
        return None
    if not pinned:
        # an ability near its cap and pushed beyond it goes there by a scaled gradient step of its own
        own = np.where(held & (point.D > 0), -point.gradient_abilities / np.where(point.D > 0, point.D, 1.0), 0.0)
        abilities = np.where(held, own, abilities)
    return _Step(scores, abilities, float(-slope))


def _search(
    likelihood: Likelihood, point: Curvature, R: Floats, theta: Floats, step: _Step, cap: float | None
) -> tuple[Floats, Floats, bool]:
    """Backtrack along the projected path until the objective decreases enough; False where it never does."""
    noise = 1e-14 * abs(point.value)
    length = 1.0
    for _ in range(MAX_HALVINGS):
        new_R = R + length * step.scores
        new_theta = theta + length * step.abilities
        if cap is not None:
            new_theta = np.minimum(new_theta, cap)
        slope = point.gradient_scores @ (new_R - R) + point.gradient_abilities @ (new_theta - theta)
        if -slope <= noise:
            return new_R, new_theta, True  # the decrease is below the objective's own rounding
        if likelihood.value(new_R, new_theta) <= point.value + SUFFICIENT_DECREASE * slope + noise:
            return new_R, new_theta, True
        length /= 2.0
    return R, theta, False


def _held(theta: Floats, point: Curvature, cap: float | None) -> NDArray[np.bool_]:
    """Abilities at (or within reach of) the cap that the gradient pushes beyond it."""
    if cap is None:
        return np.zeros(len(theta), dtype=bool)
    outward = point.gradient_abilities < 0
    reach = np.where(point.D > 0, -point.gradient_abilities / np.where(point.D > 0, point.D, 1.0), np.inf)
    return outward & (theta >= cap - np.minimum(1e-3, np.abs(reach)))


def _at_cap_settled(theta: Floats, held: NDArray[np.bool_], cap: float | None) -> bool:
    return cap is None or bool(np.all(theta[held] == cap))


def _centre(R: Floats, component: NDArray[np.int64]) -> Floats:
    mean = np.bincount(component, R) / np.maximum(np.bincount(component), 1)
    return R - mean[component]


def _rescale(likelihood: Likelihood, R: Floats, theta: Floats, scale_group: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Move along (cR, θ/c) so that θ has root mean square 1 in every group: changes no probability."""
    group = np.empty(len(theta), dtype=np.int64)
    group[likelihood.cells.annotator] = scale_group[likelihood.cells.model_a]
    size = np.bincount(group)
    factor = np.sqrt(np.bincount(group, theta**2) / np.maximum(size, 1))
    factor = np.where(factor > 0, factor, 1.0)
    return R * factor[scale_group], theta / factor[group]
