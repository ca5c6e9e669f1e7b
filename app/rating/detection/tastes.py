"""How much annotators differ in what they like: the variance of tastes over the crowd."""

import numpy as np

from app.rating.data.arrays import Floats

CERTAIN = 2.0  # standard errors from 0 from which tastes are used
OF_MEDIAN = 1.2533  # standard error of a median, in those of a mean


def find_taste_variance(excess: Floats, exposure: Floats, noise: Floats) -> float:
    """Return the weighted median of excess/exposure, 0 where it is not two standard errors above 0.

    A median, because a few annotators who favour a model have much excess too. The weights are 1/√(error² + the median
    error²), so that no annotator has more than 1.4 times the weight of the median one, however many votes.

    Parameters
    ----------
    excess, exposure, noise : of each annotator, from `add_tastes`, shape (n_annotators,)
    """
    some = exposure > 0.0
    if not some.any():
        return 0.0
    ratio, error = excess[some] / exposure[some], np.sqrt(noise[some]) / exposure[some]
    weight = 1.0 / np.sqrt(error**2 + np.median(error) ** 2)
    order = np.argsort(ratio, kind="stable")
    place = int(np.searchsorted(np.cumsum(weight[order]), weight.sum() / 2.0))
    median = float(ratio[order][min(place, len(order) - 1)])
    se = OF_MEDIAN * float(np.sqrt(weight**2 @ error**2)) / float(weight.sum())
    return median if median > CERTAIN * se else 0.0
