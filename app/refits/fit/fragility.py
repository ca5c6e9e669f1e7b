"""How few changes of the votes change a published leaderboard: found after its publication, in a fit's process."""

from dataclasses import replace

from app.rating.arrays import Mask
from app.rating.uncertainty.estimate import estimate
from app.rating.verdict.fragility import Fragility, find_fragility
from app.refits.fit.interface import FitInput

MOST_LOOKS = 1_000_000_000
"""Every cell is looked at once per model and way of changing votes. This many take about ten seconds."""


def measure_fragility(fit_input: FitInput, counted: Mask, ranked: Mask) -> Fragility | None:
    """Fit the main leaderboard of a refit again, and find how few changes of its votes change the order.

    Parameters
    ----------
    fit_input : of the refit
    counted : annotators whose votes count, shape (n_annotators,)
    ranked : models with a rank, shape (n_models,)

    Returns
    -------
    None where the votes and the models are too many

    Raises
    ------
    RatingError
    """
    fitted = estimate(fit_input.cells(counted[fit_input.annotator]), replace(fit_input.settings, interval="none"))
    if fitted.small.cells.n_models * len(fitted.small.cells.n) > MOST_LOOKS:
        return None
    return find_fragility(fitted, ranked=ranked)
