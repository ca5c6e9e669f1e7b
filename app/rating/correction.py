import math

import numpy as np

from app.rating.fit import Fit
from app.rating.observed import Observed
from app.rating.second_order import MOST, score_pull
from app.rating.shadow import shadow_abilities
from app.rating.sums import Floats


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
    shift = observed.solve(pull)
    length = math.sqrt(max(float(shift @ pull), 0.0))  # in standard errors, of all scores jointly
    allowed = MOST * math.sqrt(observed.freedom)
    R = fit.R - shift * (allowed / length if length > allowed else 1.0)
    theta, _ = shadow_abilities(
        likelihood.cells, R, prior_sd=prior_sd, ability_cap=ability_cap, bias_correction=True, start=fit.theta
    )
    return R, np.where(fit.undecided, 1.0, theta)
