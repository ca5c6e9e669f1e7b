"""What every fit of scores returns, and what one may start from."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.units import ELO_PER_NATURAL


@dataclass(frozen=True)
class FitResult:
    """A converged fit of one set of compact cells, in published units: 1 is the mean ability.

    Attributes
    ----------
    R : natural units, mean 0 in each component, shape (n_models,)
    theta : abilities, or their posterior means, shape (n_annotators,); all 1 for m-ELO
    log_likelihood : of the votes alone, at these abilities
    iterations : of the solver
    """

    R: Floats
    theta: Floats
    log_likelihood: float
    iterations: int

    @classmethod
    def nothing(cls) -> Self:
        """Return the fit of no votes."""
        return cls(np.zeros(0), np.zeros(0), 0.0, 0)


@dataclass(frozen=True)
class Start:
    """Results of an earlier round, to start the next fit from; values that are not finite are unknown.

    Attributes
    ----------
    score : Elo points, any base, shape (n_models,)
    """

    score: Floats

    def natural_scores(self, models: Indices) -> Floats:
        """Return the scores of these models in natural units around 0, unknown ones at the mean of the others."""
        score = self.score[models] / ELO_PER_NATURAL
        known = np.isfinite(score)
        middle = float(score[known].mean()) if known.any() else 0.0
        natural: Floats = np.where(known, score - middle, 0.0)
        return natural
