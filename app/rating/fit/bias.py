"""First-order bias of the abilities and of the scores, from second and third derivatives."""

import math
from dataclasses import replace

import numpy as np
from scipy.special import expit

from app.rating.arrays import Floats, sum_by
from app.rating.compiled import compiled
from app.rating.fit.abilities import MOST_CORRECTED, first_order_bias, shadow_abilities
from app.rating.fit.arrow import Observed
from app.rating.fit.kernels import moments, pair_of, squared_residual
from app.rating.fit.likelihood import Likelihood
from app.rating.fit.result import FitResult, OwnAbilities
from app.rating.fit.weights import scale_votes
from app.rating.threads import map_parts
from app.rating.votes.cells import CellArrays, Cells

WIDE = 3.0  # sd of the prior from which an ability without one is extrapolated
NOTHING = 1e-9  # information below which votes say nothing of an ability


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


def _moments(likelihood: Likelihood, R: Floats, theta: Floats, u: Floats) -> tuple[Floats, Floats]:
    c, (noise, skewness) = likelihood.cells, np.zeros((2, len(theta)))

    def fill(part: tuple[int, int]) -> None:
        sum_moments(*part, c.arrays, R, theta, u, noise, skewness)

    map_parts(fill, likelihood.rows.parts)
    return noise, skewness


def _mean_gradient(
    likelihood: Likelihood, R: Floats, theta: Floats, u: Floats, q: Floats, beta: Floats, spread: Floats
) -> Floats:
    c = likelihood.cells

    def accumulate(part: tuple[int, int]) -> Floats:
        gradient = np.zeros(len(R))
        add_score_gradients(*part, c.arrays, R, theta, u, q, beta, spread, gradient)
        return gradient

    first, *others = map_parts(accumulate, likelihood.rows.parts)
    total: Floats = sum(others, first)
    return total


@compiled
def sum_moments(
    first: int, last: int, cells: CellArrays,
    R: Floats, theta: Floats, u: Floats, noise: Floats, skewness: Floats,
) -> None:  # fmt: skip
    """Set noise and skewness (n_annotators,) of annotators first … last−1 to Σ (W − p)² d² and Σ w′d³.

    u is e^−|x| of each cell, shape (n_cells,).
    """
    starts, model_a, model_b, n, s, ties = cells.starts, cells.model_a, cells.model_b, cells.n, cells.s, cells.ties
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
    first: int, last: int, cells: CellArrays,
    R: Floats, theta: Floats, u: Floats, q: Floats, beta: Floats, spread: Floats, gradient: Floats,
) -> None:  # fmt: skip
    """Add b_k of annotators first … last−1 to gradient (n_models,); b_k is 0 where q is. u is e^−|x| of each cell."""
    starts, model_a, model_b, n, s, ties = cells.starts, cells.model_a, cells.model_b, cells.n, cells.s, cells.ties
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


def correct_bias(
    fit: FitResult, observed: Observed, votes: Cells, *, prior_sd: float, ability_cap: float | None
) -> FitResult:
    """Subtract the first-order bias of a joint fit: R = R̂ − S⁻¹ Σ_k b_k, then fit every θ_k at R, less its own bias.

    Each ability is estimated from its annotator's votes alone, so its error does not vanish as annotators are added. It
    moves the gradient of the scores by b_k on average, which spreads the scores too wide. Abilities have a bias of
    their own: they come out too large (docs/math.md, "The bias").

    Parameters
    ----------
    observed : at the fit
    votes : of the fit, each with weight 1: abilities are judged by all of them
    prior_sd, ability_cap : of the fit

    Returns
    -------
    FitResult
        The fit with `corrected` and `own`. Scores move by at most half a standard error in the root mean
        square, abilities by at most half a standard error for their own bias. Undecided abilities stay at 1.

    Notes
    -----
    Takes about one iteration of the solver, `observe` included. Reduces the bias from O(1/n_k) to O(1/n_k²), n_k the
    votes of one annotator.

    References
    ----------
    Cordeiro and McCullagh (1991), for abilities; Hahn and Newey (2004), Arellano and Hahn (2007), for scores.
    """
    likelihood = observed.likelihood
    gradient = mean_score_gradient(likelihood, fit.R, fit.theta, observed.ability_inverse())
    R = fit.R - shift_scores(observed, gradient)
    pull = observed.point.gradient_abilities + likelihood.times_rows(observed.point.cross, R - fit.R)
    begin = fit.theta - observed.inverse_D * pull  # one Newton step from the fit
    theta, _ = shadow_abilities(votes, R, prior_sd=prior_sd, ability_cap=ability_cap, bias_correction=True, start=begin)
    theta = np.where(fit.undecided, 1.0, theta)
    return replace(
        fit, corrected=(R, theta), own=find_own(votes, R, prior_sd=prior_sd, bias_correction=True, start=theta)
    )


def find_own(votes: Cells, R: Floats, *, prior_sd: float, bias_correction: bool, start: Floats) -> OwnAbilities:
    """Return every ability as the annotator's votes alone say it at these scores.

    The search has the wide prior N(1, 3²), so that an ability by votes that all follow the ranking is finite too, and
    its end is extrapolated. Votes in doubt (`Cells.trust`) say less, so that who pushes models hardly moves the unit.

    Parameters
    ----------
    prior_sd : of the fit
    start : of the search, shape (n_annotators,)
    """
    trusted = None if votes.trust is None else scale_votes(votes, votes.trust, np.ones(votes.n_annotators))
    votes = votes if trusted is None else trusted.cells
    theta, se = shadow_abilities(
        votes, R, prior_sd=WIDE, ability_cap=None, bias_correction=bias_correction, start=start
    )
    D = Likelihood(votes, prior_sd).expand(R, np.ones(votes.n_annotators), exact=False).D
    return extrapolate(theta, se**2, D, prior_sd)


def extrapolate(theta: Floats, variance: Floats, D: Floats, prior_sd: float) -> OwnAbilities:
    """Return what votes alone say of abilities, from their maxima under the prior N(1, 3²), with variances.

    Parameters
    ----------
    D : curvature at ability 1 under the fit's prior, shape (n_annotators,)
    """
    information = 1.0 / variance - 1.0 / WIDE**2
    inverse = np.where(information > NOTHING, 1.0 / np.maximum(information, NOTHING), 0.0)
    return OwnAbilities(
        ability=1.0 + (theta - 1.0) * (1.0 + inverse / WIDE**2), slope=1.0 + inverse / prior_sd**2,
        weight=1.0 - 1.0 / (prior_sd**2 * D),
    )  # fmt: skip


def correct_known(fit: FitResult, observed: Observed) -> Floats:
    """Subtract the first-order bias of scores whose abilities are known: R̂ + ½ S⁺ Σ n w′θ v (e_a − e_b).

    v is the variance of x = θ (R_a − R_b). Few votes spread the scores too wide, by about v/4 of each difference.

    Returns
    -------
    R : moved by at most half a standard error in the root mean square

    References
    ----------
    Cordeiro and McCullagh (1991), eq. 4.
    """
    c, size = observed.likelihood.cells, len(fit.R)
    theta = fit.theta[c.annotator]
    p = expit(theta * (fit.R[c.model_a] - fit.R[c.model_b]))
    inverse = observed.solve(np.eye(size) - observed.shifts)
    own = np.diag(inverse)
    variance = theta**2 * (own[c.model_a] + own[c.model_b] - 2.0 * inverse[c.model_a, c.model_b])
    pull = 0.5 * c.n * p * (1.0 - p) * (1.0 - 2.0 * p) * theta * variance
    gradient = sum_by(c.model_b, pull, size) - sum_by(c.model_a, pull, size)
    return fit.R - shift_scores(observed, gradient)


def shift_scores(observed: Observed, gradient: Floats) -> Floats:
    """Return S⁻¹ times the mean gradient, limited to the length up to which the expansion is valid."""
    shift = observed.solve(gradient)
    length = math.sqrt(max(float(shift @ gradient), 0.0))  # in standard errors, of all scores jointly
    allowed = MOST_CORRECTED * math.sqrt(observed.freedom)
    return shift * (allowed / length if length > allowed else 1.0)
