"""What every fit of scores returns."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from app.rating.arrays import Floats


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
