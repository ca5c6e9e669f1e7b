"""Earlier results as a point to start a fit from, where they are worth one."""

import numpy as np
from numpy.typing import NDArray

from app.rating.compact import Compact
from app.rating.errors import RatingError
from app.rating.fit import fit_m_elo
from app.rating.gauge import ELO_PER_NATURAL, LEAST_MEDIAN
from app.rating.likelihood import Likelihood
from app.rating.prior_spread import ASSUMED
from app.rating.results import LoopSettings, Start
from app.rating.sums import Floats
from app.rating.votes import Cells

FEWEST_ANNOTATORS = 100  # with fewer, a fit takes milliseconds from anywhere, and has the most maxima to end at


def find_begin(
    small: Compact, label: NDArray[np.int64], settings: LoopSettings, start: Start
) -> tuple[Floats, Floats] | None:
    """Return scores and abilities in the solver's units to start from; None where a fit had better start by itself.

    That is for m-ELO, whose maximum is one and quickly found; with fewer than 100 annotators; and where the results
    explain those votes that they know of no better than m-ELO does. An optimum on much the same votes explains them
    better; what is garbled, turned around or from another arena does not, and the climb from it could end at another
    maximum.

    Parameters
    ----------
    small : the votes between models with a score
    label : component of each of its models
    start : models and annotators indexed as before; scores and abilities that are not finite begin as the average
        model's and annotator's, and so does a median ability that is no positive number: as 1
    """
    if settings.method == "m-elo" or len(small.annotators) < FEWEST_ANNOTATORS:
        return None
    R, theta = _in_solvers_units(start, small)
    if not float(np.median(theta)) > LEAST_MEDIAN:
        return None
    try:
        m_elo = fit_m_elo(small.cells, label).R
    except RatingError:  # the votes of annotators below 0 link some of the models: nothing to compare with
        return None
    known = np.isfinite(start.ability[small.annotators])
    sd = ASSUMED if settings.prior_sd == "estimated" else settings.prior_sd
    likelihood, one = Likelihood(_known_cells(small.cells, start.score[small.models], known), sd), np.ones(len(theta))
    with np.errstate(over="ignore", invalid="ignore"):
        gained = likelihood.log_likelihood(R, theta) - likelihood.prior(np.where(known, theta, 1.0))
        return (R, theta) if gained > likelihood.log_likelihood(m_elo, one) else None


def _known_cells(cells: Cells, score: Floats, annotator_known: NDArray[np.bool_]) -> Cells:
    model_known = np.isfinite(score)
    return cells.where(annotator_known[cells.annotator] & model_known[cells.model_a] & model_known[cells.model_b])


def _in_solvers_units(start: Start, small: Compact) -> tuple[Floats, Floats]:
    median = start.median_ability if np.isfinite(start.median_ability) and start.median_ability > 0 else 1.0
    score, ability = start.score[small.models], start.ability[small.annotators]
    with np.errstate(over="ignore", invalid="ignore"):
        known = np.isfinite(score)
        middle = float(np.mean(score[known])) if known.any() else 0.0
        R = np.where(known, score - middle, 0.0) / (ELO_PER_NATURAL * median)
        return R, np.where(np.isfinite(ability), ability, 1.0) * median
