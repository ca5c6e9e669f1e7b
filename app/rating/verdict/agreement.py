"""How two leaderboards agree on the order of the models that both have."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.uncertainty.freedom import critical_values
from app.rating.verdict.order import JointScores


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


def compare_orders(a: Sequence[JointScores], b: Sequence[JointScores], confidence: float = 0.95) -> OrderAgreement:
    """Compare the orders of two leaderboards; an order is certain where the interval of the difference leaves out 0.

    Parameters
    ----------
    a, b : the scores of each of their groups of models, between which there is no order

    Notes
    -----
    τ of noisy scores is too close to 0, and more so the more models are close. The bounds on τ know of no order beyond
    the certain ones, so they are wide where votes are few. The two leaderboards may share annotators: the bounds do not
    ask for independent errors.
    """
    found = [(np.empty(0), np.empty(0, dtype=np.bool_))]
    for one, other in itertools.product(a, b):
        _, in_one, in_other = np.intersect1d(one.models, other.models, return_indices=True)
        (sign, sure), (sign_other, sure_other) = _orders(one, in_one, confidence), _orders(other, in_other, confidence)
        found.append((sign * sign_other, sure & sure_other))
    product, certain = map(np.concatenate, zip(*found, strict=True))
    pairs, same, opposite = len(product), int((certain & (product > 0)).sum()), int((certain & (product < 0)).sum())
    if not pairs:
        return OrderAgreement(0, 0, 0, None, None, None)
    return OrderAgreement(
        pairs, same, opposite, float(product.mean()), 2.0 * same / pairs - 1.0, 1.0 - 2.0 * opposite / pairs
    )


def _orders(joint: JointScores, models: Indices, confidence: float) -> tuple[Floats, np.ndarray]:
    first, second = (models[side] for side in np.triu_indices(len(models), 1))
    gap = joint.gaps[first, second]
    half = critical_values(joint.contrast_freedom[first, second], confidence) * joint.errors[first, second]
    return np.sign(gap), np.abs(gap) > half
