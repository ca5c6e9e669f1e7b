"""How two leaderboards agree on the order of the models that both have."""

from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from app.rating.arrays import Floats, Indices
from app.rating.verdict.joint import JointScores


class OrderAgreement(NamedTuple):
    """Pairs of models with a score on both leaderboards.

    Attributes
    ----------
    pairs : how many there are
    same, opposite : those whose order is certain on both, and the same or not
    tau : Kendall's τ of the scores; None without a pair
    tau_lower, tau_upper : τ if the order of every other pair differed, or agreed
    """

    pairs: int
    same: int
    opposite: int
    tau: float | None
    tau_lower: float | None
    tau_upper: float | None


def compare_orders(a: JointScores, b: JointScores, confidence: float = 0.95) -> OrderAgreement:
    """Compare the orders of two leaderboards; an order is certain where the interval of the difference leaves out 0.

    Notes
    -----
    τ of noisy scores is too close to 0, and more so the more models are close. The bounds on τ know of no order beyond
    the certain ones, so they are wide where votes are few. The two leaderboards may share annotators: the bounds do not
    ask for independent errors.
    """
    _, in_a, in_b = np.intersect1d(a.models, b.models, return_indices=True)
    (sign_a, certain_a), (sign_b, certain_b) = _orders(a, in_a, confidence), _orders(b, in_b, confidence)
    product, certain = sign_a * sign_b, certain_a & certain_b
    pairs, same, opposite = len(product), int((certain & (product > 0)).sum()), int((certain & (product < 0)).sum())
    if not pairs:
        return OrderAgreement(0, 0, 0, None, None, None)
    return OrderAgreement(
        pairs, same, opposite, float(product.mean()), 2.0 * same / pairs - 1.0, 1.0 - 2.0 * opposite / pairs
    )


def _orders(joint: JointScores, models: Indices, confidence: float) -> tuple[Floats, np.ndarray]:
    first, second = (models[side] for side in np.triu_indices(len(models), 1))
    gap = joint.gaps[first, second]
    half = stdtrit(joint.contrast_freedom[first, second], 0.5 + confidence / 2.0) * joint.errors[first, second]
    return np.sign(gap), np.abs(gap) > half
