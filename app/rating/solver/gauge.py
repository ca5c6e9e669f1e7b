"""Two gauges for the same fit: (R, θ) and (cR, θ/c) give every vote the same probability."""

import math

import numpy as np

from app.rating.data.arrays import Floats, Indices
from app.rating.errors import NoCommonRankingError

ELO_PER_NATURAL = 400.0 / math.log(10.0)
LEAST_MEDIAN = 0.1


def typical_ability(theta: Floats, group: Indices | None = None) -> Floats:
    """Median ability (mean of the two middle ones), the unit of published abilities.

    Parameters
    ----------
    theta : annotators in the fit, shape (n_annotators,)
    group : scale group of each annotator (scales of different groups do not compare); default one group

    Returns
    -------
    float array, shape (n_annotators,): the median of each annotator's group

    Raises
    ------
    NoCommonRankingError
        A median at or below 0.1: the annotators have no common ranking.
    """
    group = np.zeros(len(theta), dtype=np.int64) if group is None else group
    unit = np.empty(len(theta))
    for each in np.unique(group):
        median = float(np.median(theta[group == each]))
        if median <= LEAST_MEDIAN:
            raise NoCommonRankingError(
                f"the median ability is {median:.3f}, at or below {LEAST_MEDIAN}: the annotators have no common ranking"
            )
        unit[group == each] = median
    return unit


def to_paper_gauge(R: Floats, theta: Floats) -> tuple[Floats, Floats]:
    """Return (R, θ) with Σ_k θ_k = 1, R in natural units, from any gauge of the same fit.

    Raises
    ------
    NoCommonRankingError
        Σ_k θ_k ≤ 0: no positive factor brings it to 1.

    References
    ----------
    Liu et al., Am-ELO, ICML 2025, Algorithm 2 (normalisation).
    """
    total = float(theta.sum())
    if total <= 0:
        raise NoCommonRankingError(f"the abilities sum to {total:.3f}: the paper's gauge needs a positive sum")
    return R * total, theta / total


def threshold_in_paper_gauge(min_ability: float, abilities: Floats) -> float:
    """Convert ε from published units to the paper's, given the published abilities of the fit, shape (n,).

    The paper's ε = 0.005 at 42 annotators is 0.21 of the mean ability. The inverse is multiplication by
    `abilities.sum()`.
    """
    return min_ability / float(abilities.sum())
