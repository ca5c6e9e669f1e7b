"""Abilities of annotators who are not in a fit, at its scores and under its law."""

from typing import NamedTuple

import numpy as np

from app.rating.arrays import Floats
from app.rating.model.crowd import Crowd, thetas
from app.rating.model.scores import MarginalFit
from app.rating.threads import map_parts
from app.rating.votes.cells import Cells

TINY = 1e-300


class Abilities(NamedTuple):
    """Posteriors of abilities, NaN without a vote, shape (n_annotators,) each.

    Attributes
    ----------
    mean, sd : of θ
    if_honest : E[θ | honest]
    """

    mean: Floats
    sd: Floats
    if_honest: Floats


def find_abilities(cells: Cells, R: Floats, fit: MarginalFit) -> Abilities:
    """Return the posteriors of abilities at given scores.

    Parameters
    ----------
    cells : between models with a score
    R : scores, natural units, shape (n_models,)
    fit : whose law and dispersion hold
    """
    found = np.full((3, cells.n_annotators), np.nan)

    def judge(part: tuple[int, int]) -> None:
        crowd = Crowd(cells.of_annotators(*part), np.ones(0), 1.0 / fit.dispersion, R)
        crowd.look(R, fit.law.spread)
        crowd.fill(R)
        crowd.weigh(fit.law)
        known, theta = crowd.abilities(followers=True), thetas(crowd.nodes)
        honest = np.where(theta > 0.0, crowd.nodes.posterior, 0.0)
        total, weighted = (np.add.reduceat(each, crowd.nodes.begin[:-1]) for each in (honest, honest * theta))
        if_honest = np.where(crowd.silent, np.nan, weighted / np.maximum(total, TINY))
        found[:, slice(*part)] = known.mean, known.sd, if_honest

    map_parts(judge, cells.split_annotators())
    return Abilities(*found)
