import math

import numpy as np

from app.rating.data.arrays import Floats
from app.rating.data.votes import Cells
from app.rating.solver.observed import Observed
from app.rating.solver.result import FitResult
from app.rating.solver.second_order import MOST, mean_held_gradient, mean_score_gradient
from app.rating.solver.shadow import shadow_abilities


def correct_bias(
    fit: FitResult, observed: Observed, votes: Cells, *, prior_sd: float, ability_cap: float | None
) -> tuple[Floats, Floats]:
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
    R, theta : in the fit's units
        Scores move by at most half a standard error in the root mean square, abilities by at most half a standard
        error for their own bias. Undecided abilities stay at 1.

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
    R = fit.R - _shift(observed, gradient)
    own = observed.point.gradient_abilities + likelihood.times_rows(observed.point.cross, R - fit.R)
    begin = fit.theta - observed.arrow.inverse_D * own  # one Newton step from the fit
    theta, _ = shadow_abilities(votes, R, prior_sd=prior_sd, ability_cap=ability_cap, bias_correction=True, start=begin)
    return R, np.where(fit.undecided, 1.0, theta)


def correct_held(fit: FitResult, observed: Observed, *, inverse: Floats, spread: Floats) -> Floats:
    """Subtract the first-order bias of scores that were fitted with fixed abilities, themselves without bias.

    Parameters
    ----------
    fit : of the scores, θ fixed
    observed : at the fit
    inverse, spread : inverse curvature and variance of each ability in the fit it comes from, shape (n_annotators,)

    Returns
    -------
    R : in the fit's units, moved by at most half a standard error in the root mean square
    """
    gradient = mean_held_gradient(observed.likelihood, fit.R, fit.theta, inverse, spread)
    return fit.R - _shift(observed, gradient)


def _shift(observed: Observed, gradient: Floats) -> Floats:
    """Return S⁻¹ times the mean gradient, limited to the length up to which the expansion is valid."""
    shift = observed.solve(gradient)
    length = math.sqrt(max(float(shift @ gradient), 0.0))  # in standard errors, of all scores jointly
    allowed = MOST * math.sqrt(observed.freedom)
    return shift * (allowed / length if length > allowed else 1.0)
