"""Other maxima of am-ELO's objective than the one that the default start leads to."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.special import expit

from app.rating.arrays import Floats, Indices
from app.rating.errors import RatingError
from app.rating.fit.abilities import profile_abilities
from app.rating.fit.am_elo import APART, AS_GOOD, Maximum, finish
from app.rating.fit.likelihood import Likelihood
from app.rating.fit.partitions import Partitions
from app.rating.fit.result import FitResult, Rival
from app.rating.fit.scale import find_scale
from app.rating.fit.sqp import minimise
from app.rating.threads import one_blas_thread

MOST_VOTES = 20_000  # more have hardly ever several maxima, and fits of them take longer
MOST_MODELS = 500  # the directions are eigenvectors of a square matrix of the models
DIRECTIONS = 2
HAIR = math.log(20.0)
SAME = 0.01  # squared distance from the given maximum, in standard errors, from which a climb is sure to end there


@dataclass(frozen=True)
class Maxima:
    """What was found from other starts.

    Attributes
    ----------
    best : the highest maximum, the given one where none is higher
    rivals : other maxima that are at most 20 times less likely, the likeliest first
    """

    best: Maximum
    rivals: tuple[Rival, ...]


def find_maxima(component: Indices, maximum: Maximum, *, ability_cap: float | None) -> Maxima:
    """Climb from four other starts, by the two main directions v, w in which annotators depart from a fit.

    They are ±v and ±w, as long as R.

    Where annotators have tastes in common, another maximum believes others of them. The residuals of the fit then vary
    most along the difference of their tastes: v and w are the first eigenvectors of Σ_k g_k g_kᵀ, with g_k =
    Σ (W − p)(e_a − e_b) over the votes of annotator k.

    Parameters
    ----------
    maximum : over votes with their weights, on at most 500 models; with a prior

    Notes
    -----
    Costs up to four fits from a start; one that comes near the given maximum stops there. docs/math.md, "The solver",
    compares what they find with what random starts find.
    """
    fit, end = maximum
    likelihood, cells = end.likelihood, end.likelihood.cells
    found = [(_value(likelihood, fit), maximum)]

    def known(R: Floats, theta: Floats) -> bool:
        apart = R - fit.R
        return float(apart @ end.A @ apart + end.D @ (theta - fit.theta) ** 2) < SAME

    with Partitions.of(
        cells, component, find_scale(cells), prior_sd=likelihood.prior_sd, cap=ability_cap
    ) as partitions:
        cap, typical = np.inf if ability_cap is None else ability_cap, np.ones(cells.n_annotators)
        for R in _starts(likelihood, fit):
            theta = profile_abilities(likelihood.rows, R, typical, precision=likelihood.precision).theta
            partitions.begin(theta)
            try:
                optimum = minimise(partitions, R, known)
                if optimum.known:
                    continue
                other = finish(optimum, partitions.abilities(), likelihood, cap)
            except RatingError:
                continue
            if all(np.abs(one.fit.R - other.fit.R).max() > APART for _, one in found):
                found.append((_value(likelihood, other.fit), other))
    highest = max(value for value, _ in found)
    at = 0 if found[0][0] >= highest - AS_GOOD else int(np.argmax([value for value, _ in found]))
    best = found.pop(at)
    rivals = sorted((Rival(best[0] - value, other.fit.R) for value, other in found), key=lambda rival: rival.behind)
    return Maxima(best[1], tuple(rival for rival in rivals if rival.behind <= HAIR))


@one_blas_thread()
def _starts(likelihood: Likelihood, fit: FitResult) -> list[Floats]:
    size = len(fit.R)
    c = likelihood.cells
    residual = c.s - c.n * expit(fit.theta[c.annotator] * (fit.R[c.model_a] - fit.R[c.model_b]))
    products = likelihood.rows.products(residual, np.ones(len(fit.theta)))
    few = min(DIRECTIONS, size)
    _, directions = eigh(products, subset_by_index=[size - few, size - 1])
    tastes = float(np.linalg.norm(fit.R)) * directions.T[::-1]
    return [*tastes, *-tastes]


def _value(likelihood: Likelihood, fit: FitResult) -> float:
    return fit.log_likelihood - likelihood.prior(fit.theta)
