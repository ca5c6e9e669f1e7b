"""The best of several variants: its score looks better than it is, because it was chosen for its score."""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from app.rating.arrays import Floats


@dataclass(frozen=True)
class Winner:
    """The variant with the highest score, and an interval that allows for the choice.

    Attributes
    ----------
    index : of the best variant
    score : the middle of the interval
    lower, upper : ends of the interval
    """

    index: int
    score: float
    lower: float
    upper: float


def adjust_winner(score: Floats, errors: Floats, *, others: int = 0, confidence: float = 0.95) -> Winner:
    """Return the best of n variants, with an interval for its true score.

    With z_q the normal quantile, the interval reaches from S − z_(1 − α/2n) e to S + z_(1 − α/2) e.

    Parameters
    ----------
    score : estimated scores S, shape (n,)
    errors : their standard errors e, shape (n,)
    others : variants whose scores are not given, and are in n too
    confidence : 1 − α

    Notes
    -----
    Whichever variant was chosen, its score is too high by the lower width only if that of one of the n is: Bonferroni.
    Too low is another matter. Where the variant that is chosen is too low by the upper width, the truly best one is too
    low by that or more, or it would have been chosen. That is one event, however many variants there are. So with equal
    errors the interval holds, whatever their correlation. With one variant it is the usual interval.

    References
    ----------
    Singh et al., The Leaderboard Illusion, 2025, §4, on the best of many private variants.
    """
    best, half, n = int(np.argmax(score)), (1.0 - confidence) / 2.0, len(score) + others
    lower, upper = (-NormalDist().inv_cdf(share) * float(errors[best]) for share in (half / n, half))
    y = float(score[best])
    return Winner(best, y + (upper - lower) / 2.0, y - lower, y + upper)
