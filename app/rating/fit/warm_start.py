"""Earlier results as the start of a fit."""

import math
from dataclasses import dataclass

import numpy as np

from app.rating.arrays import Floats
from app.rating.fit.fit import FEW
from app.rating.fit.likelihood import Likelihood
from app.rating.fit.prior_spread import ASSUMED
from app.rating.fit.scale import ELO_PER_NATURAL, LEAST_MEDIAN
from app.rating.settings import LoopSettings
from app.rating.votes.compact import Compact


@dataclass(frozen=True)
class Start:
    """Published results of an earlier round, to start the next fit from; values that are not finite are unknown.

    Attributes
    ----------
    score : Elo points, any base, shape (n_models,)
    ability : published units, shape (n_annotators,)
    median_ability : what published abilities were divided by
    """

    score: Floats
    ability: Floats
    median_ability: float


def find_begin(small: Compact, settings: LoopSettings, start: Start) -> tuple[Floats, Floats] | None:
    """Return scores and abilities in the solver's units to start from; None where the default start is better.

    The default is better for m-ELO, which has one maximum and finds it quickly; with fewer than 20 annotators; and
    where the earlier results explain the votes no better than a coin. Then they are corrupt or of other votes, and the
    fit from them could reach another maximum.

    Parameters
    ----------
    small : the votes between identified models
    start : in the original indices; unknown scores start at the mean, unknown abilities at the typical one, and a
        median ability that is not a positive number counts as 1
    """
    if settings.method == "m-elo" or len(small.annotators) < FEW:
        return None
    R, theta = _in_solvers_units(start, small)
    if not float(np.median(theta)) > LEAST_MEDIAN:
        return None
    sd = ASSUMED if settings.prior_sd == "estimated" else settings.prior_sd
    with np.errstate(over="ignore", invalid="ignore"):
        value = Likelihood(small.cells, sd).value(R, theta)
    return (R, theta) if value < small.cells.n_votes * math.log(2.0) else None


def _in_solvers_units(start: Start, small: Compact) -> tuple[Floats, Floats]:
    median = start.median_ability if np.isfinite(start.median_ability) and start.median_ability > 0 else 1.0
    score, ability = start.score[small.models], start.ability[small.annotators]
    with np.errstate(over="ignore", invalid="ignore"):
        known = np.isfinite(score)
        middle = float(np.mean(score[known])) if known.any() else 0.0
        R = np.where(known, score - middle, 0.0) / (ELO_PER_NATURAL * median)
        return R, np.where(np.isfinite(ability), ability, 1.0) * median
