"""First-order bias of the abilities and of the scores' gradient, from second and third derivatives."""

import numpy as np

from app.rating.data.arrays import Floats, Indices, Ints
from app.rating.data.compiled import compiled
from app.rating.data.threads import map_parts
from app.rating.solver.kernels import pair_of
from app.rating.solver.likelihood import Likelihood
from app.rating.solver.residuals import moments, squared_residual

MOST = 0.5  # standard errors that a correction may move a value: beyond it a first-order expansion is not valid


def mean_score_gradient(likelihood: Likelihood, R: Floats, theta: Floats, q: Floats) -> Floats:
    """Return the mean gradient of ℓ by the scores at the true scores, abilities at their maxima: Σ_k b_k.

    Parameters
    ----------
    R, theta : shapes (n_models,) and (n_annotators,)
    q : inverse curvature of each ability, by how much a unit of its gradient moves it; 0 for held abilities

    Returns
    -------
    float array, shape (n_models,)
    """
    u = likelihood.exponentials(R, theta)
    noise, skewness = _moments(likelihood, R, theta, u)
    return _mean_gradient(likelihood, R, theta, u, q, first_order_bias(skewness, noise, q), noise * q**2)


def mean_held_gradient(likelihood: Likelihood, R: Floats, theta: Floats, q: Floats, spread: Floats) -> Floats:
    """Return the same mean gradient for fixed abilities without bias: b_k with β_k = 0.

    Parameters
    ----------
    likelihood : of some of the votes that the abilities were estimated from
    q, spread : inverse curvature and variance of the abilities in that fit
    """
    u = likelihood.exponentials(R, theta)
    return _mean_gradient(likelihood, R, theta, u, q, np.zeros(len(theta)), spread)


def ability_spread(likelihood: Likelihood, R: Floats, theta: Floats, q: Floats) -> Floats:
    """Return the sampling variance V_k = q² Σ (W − p)² d² of each ability at fixed scores, shape (n_annotators,)."""
    noise, _ = _moments(likelihood, R, theta, likelihood.exponentials(R, theta))
    spread: Floats = noise * q**2
    return spread


def first_order_bias(skewness: Floats, noise: Floats, q: Floats) -> Floats:
    """Return the bias β_k of each ability at fixed scores, limited to half its standard error.

    Parameters
    ----------
    skewness, noise : Σ w′d³ and Σ (W − p)² d² over each annotator's votes, shape (n_annotators,)
    q : as for `mean_score_gradient`
    """
    spread = noise * q**2
    most = MOST * np.sqrt(spread)
    return np.clip(-0.5 * skewness * spread * q, -most, most)


def _moments(likelihood: Likelihood, R: Floats, theta: Floats, u: Floats) -> tuple[Floats, Floats]:
    c, (noise, skewness) = likelihood.cells, np.zeros((2, len(theta)))

    def fill(part: tuple[int, int]) -> None:
        sum_moments(*part, likelihood.rows.starts, c.model_a, c.model_b, c.n, c.s, c.ties, R, theta, u, noise, skewness)

    map_parts(fill, likelihood.rows.parts)
    return noise, skewness


def _mean_gradient(
    likelihood: Likelihood, R: Floats, theta: Floats, u: Floats, q: Floats, beta: Floats, spread: Floats
) -> Floats:
    c = likelihood.cells

    def accumulate(part: tuple[int, int]) -> Floats:
        gradient = np.zeros(len(R))
        add_score_gradients(
            *part,
            likelihood.rows.starts,
            c.model_a,
            c.model_b,
            c.n,
            c.s,
            c.ties,
            R,
            theta,
            u,
            q,
            beta,
            spread,
            gradient,
        )
        return gradient

    first, *others = map_parts(accumulate, likelihood.rows.parts)
    total: Floats = sum(others, first)
    return total


@compiled
def sum_moments(
    first: int, last: int, starts: Indices, model_a: Ints, model_b: Ints, n: Floats, s: Floats, ties: Floats,
    R: Floats, theta: Floats, u: Floats, noise: Floats, skewness: Floats,
) -> None:  # fmt: skip
    """Set noise and skewness (n_annotators,) of annotators first … last−1 to Σ (W − p)² d² and Σ w′d³.

    u is e^−|x| of each cell, shape (n_cells,).
    """
    for k in range(first, last):
        squares, cubes = 0.0, 0.0
        for cell in range(starts[k], starts[k + 1]):
            a, b = pair_of(model_a, model_b, cell)
            d = R[a] - R[b]
            p, _, skew = moments(theta[k] * d, u[cell])
            squares += squared_residual(p, n[cell], s[cell], ties[cell]) * d * d
            cubes += n[cell] * skew * d * d * d
        noise[k], skewness[k] = squares, cubes


@compiled
def add_score_gradients(
    first: int, last: int, starts: Indices, model_a: Ints, model_b: Ints, n: Floats, s: Floats, ties: Floats,
    R: Floats, theta: Floats, u: Floats, q: Floats, beta: Floats, spread: Floats, gradient: Floats,
) -> None:  # fmt: skip
    """Add b_k of annotators first … last−1 to gradient (n_models,); b_k is 0 where q is. u is e^−|x| of each cell."""
    for k in range(first, last):
        if q[k] <= 0.0:
            continue
        ability, variance_of = theta[k], spread[k]
        shift = ability * beta[k] + variance_of
        for cell in range(starts[k], starts[k + 1]):
            a, b = pair_of(model_a, model_b, cell)
            d = R[a] - R[b]
            p, variance, skew = moments(ability * d, u[cell])
            amount = squared_residual(p, n[cell], s[cell], ties[cell]) * q[k]
            amount -= n[cell] * (variance * shift + 0.5 * ability * d * skew * variance_of)
            gradient[a] += amount * d
            gradient[b] -= amount * d
