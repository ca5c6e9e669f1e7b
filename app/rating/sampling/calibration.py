"""Battles that tell most about an annotator."""

import numpy as np
from scipy.special import expit

from app.rating.data.arrays import Floats
from app.rating.sampling.pair_weights import pair_positions


def calibration_weights(R: Floats) -> Floats:
    """Return the information of a battle on a typical annotator's ability: (R_i − R_j)² p_ij(1 − p_ij), at θ = 1.

    It is greatest where |R_i − R_j| = 2.4 (417 Elo points): the better model wins 92 % of such battles, so a few
    contrary votes tell a careless annotator from a careful one, and equal models tell nothing.

    Parameters
    ----------
    R : natural units of the typical annotator, NaN for models without a score, shape (n_models,)

    Returns
    -------
    float array, shape (n_models (n_models − 1)/2,), in the order of `pair_positions`
        0 for pairs with a model without a score.
    """
    first, second = pair_positions(len(R))
    difference = R[first] - R[second]
    p = expit(difference)
    weights: Floats = np.nan_to_num(difference**2 * p * (1.0 - p))
    return weights
