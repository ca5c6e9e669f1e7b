"""Abilities of annotators who are not in a fit, at its scores and under its law."""

import numpy as np

from app.rating.arrays import Floats
from app.rating.model.crowd import Crowd
from app.rating.model.scores import MarginalFit
from app.rating.threads import map_parts
from app.rating.votes.cells import Cells


def find_abilities(cells: Cells, R: Floats, fit: MarginalFit) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of each ability's posterior, NaN without a vote, shape (n_annotators,) each.

    Parameters
    ----------
    cells : between models with a score
    R : scores, natural units, shape (n_models,)
    fit : whose law and dispersion hold
    """
    found = np.full((2, cells.n_annotators), np.nan)

    def judge(part: tuple[int, int]) -> None:
        crowd = Crowd(cells.of_annotators(*part), np.ones(0), 1.0 / fit.dispersion)
        crowd.look(R, fit.law.spread)
        crowd.fill(R)
        crowd.weigh(fit.law, settle=True)
        mean = crowd.ability()
        sd = np.sqrt(np.maximum(crowd.square() - mean**2, 0.0))
        found[:, slice(*part)] = np.where(crowd.silent(), np.nan, [mean, sd])

    map_parts(judge, cells.split_annotators())
    return found[0], found[1]
