"""First-order bias of abilities and of the scores' gradient: what follows from second and third derivatives."""

import math

import numpy as np

from app.rating.compiled import compiled
from app.rating.kernels import Ints, Starts
from app.rating.likelihood import Likelihood
from app.rating.moments import moments
from app.rating.sums import Floats

MOST = 0.5  # standard errors that a correction may move anything: beyond it a first-order expansion says little


def ability_bias(likelihood: Likelihood, R: Floats, theta: Floats, q: Floats) -> Floats:
    """Return the first-order bias β_k of each ability's own maximum at fixed scores, cut to half its standard error.

    Parameters
    ----------
    R, theta : shapes (n_models,) and (n_annotators,)
    q : how far θ_k moves by a unit of its gradient, its inverse curvature; 0 where something else decides it
    """
    return _expand(likelihood, R, theta, q, np.zeros(len(R)))


def score_pull(likelihood: Likelihood, R: Floats, theta: Floats, q: Floats) -> Floats:
    """Return the mean gradient of ℓ at the true scores, abilities at their maxima: Σ_k b_k, shape (n_models,).

    Parameters as of `ability_bias`.
    """
    pull = np.zeros(len(R))
    _expand(likelihood, R, theta, q, pull)
    return pull


def _expand(likelihood: Likelihood, R: Floats, theta: Floats, q: Floats, pull: Floats) -> Floats:
    c, beta = likelihood.cells, np.empty(len(theta))
    expand_bias(likelihood.rows.starts, c.model_a, c.model_b, c.n, c.s, c.ties, R, theta, q, pull, beta)
    return beta


@compiled
def expand_bias(
    starts: Starts, model_a: Ints, model_b: Ints, n: Floats, s: Floats, ties: Floats,
    R: Floats, theta: Floats, q: Floats, pull: Floats, beta: Floats,
) -> None:  # fmt: skip
    """Set beta (n_annotators,) and add every annotator's expected gradient of the scores to pull (n_models,)."""
    for k in range(len(theta)):
        ability, own = theta[k], q[k]
        beta[k] = 0.0
        if own <= 0.0:
            continue
        noise, skewness = 0.0, 0.0
        for cell in range(starts[k], starts[k + 1]):
            d = R[model_a[cell]] - R[model_b[cell]]
            p, _, skew, _ = moments(ability * d)
            noise += squared_residual(p, n[cell], s[cell], ties[cell]) * d * d
            skewness += n[cell] * skew * d * d * d
        spread = noise * own * own  # variance of the ability
        most = MOST * math.sqrt(spread)
        beta[k] = min(max(-0.5 * skewness * spread * own, -most), most)
        for cell in range(starts[k], starts[k + 1]):
            a, b = model_a[cell], model_b[cell]
            d = R[a] - R[b]
            p, variance, skew, _ = moments(ability * d)
            amount = squared_residual(p, n[cell], s[cell], ties[cell]) * own
            amount -= n[cell] * (variance * (ability * beta[k] + spread) + 0.5 * ability * d * skew * spread)
            pull[a] += amount * d
            pull[b] -= amount * d


@compiled
def squared_residual(p: float, n: float, s: float, ties: float) -> float:
    """Σ (W − p)² over the votes of a cell."""
    won, lost = s - ties / 2.0, n - s - ties / 2.0
    return won * (1.0 - p) ** 2 + ties * (0.5 - p) ** 2 + lost * p**2
