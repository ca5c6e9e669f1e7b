import math

import numpy as np

from app.rating.data.arrays import Floats
from app.rating.solver.fit import Fit
from app.rating.solver.observed import Observed
from app.rating.solver.second_order import MOST, held_pull, score_pull
from app.rating.solver.shadow import shadow_abilities


def correct_bias(fit: Fit, observed: Observed, *, prior_sd: float, ability_cap: float | None) -> tuple[Floats, Floats]:
    """Take the first-order bias out of a joint fit: R = R̂ − S⁻¹ Σ_k b_k, then every θ_k by itself at R, less its own.

    Every ability is estimated from its annotator's votes alone, so its error does not vanish as annotators are added,
    and moves the scores' gradient by b_k on average: scores far from the middle come out too far away. Abilities of
    their own come out too large, and the constraint that the typical one is 1 pushes them (docs/math.md, "The bias").

    Parameters
    ----------
    observed : at the fit
    prior_sd, ability_cap : of the fit

    Returns
    -------
    R, theta : in the fit's units
        Scores are moved by no more than half a standard error in the root mean square, abilities by no more than half
        a standard error for their own bias. Undecided abilities are left as they are.

    Notes
    -----
    With `observe` about one iteration of the solver. Bias of O(1/n_k) becomes O(1/n_k²), n_k one annotator's votes.

    References
    ----------
    Cordeiro and McCullagh (1991), for abilities; Hahn and Newey (2004), Arellano and Hahn (2007), for scores.
    """
    likelihood = observed.likelihood
    pull = score_pull(likelihood, fit.R, fit.theta, observed.ability_inverse())
    R = fit.R - _shift(observed, pull)
    own = observed.point.gradient_abilities + likelihood.times_rows(observed.point.cross, R - fit.R)
    begin = fit.theta - observed.arrow.inverse_D * own  # where Newton's first step from the fit ends
    theta, _ = shadow_abilities(
        likelihood.cells, R, prior_sd=prior_sd, ability_cap=ability_cap, bias_correction=True, start=begin
    )
    return R, np.where(fit.undecided, 1.0, theta)


def correct_held(fit: Fit, observed: Observed, *, inverse: Floats, spread: Floats) -> Floats:
    """Take the first-order bias out of scores that were fitted to held abilities, themselves estimated without bias.

    Parameters
    ----------
    fit : of the scores, θ held
    observed : at the fit
    inverse, spread : how far an ability answers its own gradient, and its variance, in the fit it comes from, shape
        (n_annotators,)

    Returns
    -------
    R : in the fit's units, moved by no more than half a standard error in the root mean square
    """
    pull = held_pull(observed.likelihood, fit.R, fit.theta, inverse, spread)
    return fit.R - _shift(observed, pull)


def _shift(observed: Observed, pull: Floats) -> Floats:
    """S⁻¹ times the mean gradient, cut where a first-order expansion says little."""
    shift = observed.solve(pull)
    length = math.sqrt(max(float(shift @ pull), 0.0))  # in standard errors, of all scores jointly
    allowed = MOST * math.sqrt(observed.freedom)
    return shift * (allowed / length if length > allowed else 1.0)
