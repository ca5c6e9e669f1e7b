"""The one result of the solver."""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from app.rating.arrays import Floats, Mask
from app.rating.fit.weights import Weighted
from app.rating.votes.cells import Cells

Source = Literal["estimated", "at-least", "at-most", "assumed"]


@dataclass(frozen=True)
class PriorSpread:
    """Standard deviation of the prior θ_k ~ N(1, sd²) in force, and of the abilities themselves.

    Attributes
    ----------
    sd : in force in the objective, in units of the typical ability: spread / √dispersion
    spread : estimated standard deviation of abilities around 1
    se : standard error of `spread`, scores taken as known; NaN where it was not estimated
    dispersion : variance of a vote relative to p(1 − p); below 1 where there are ties
    source : "estimated": a maximum of the marginal likelihood inside 0.1 to 3; "at-least" or "at-most": the likelihood
        rises to the lower or upper end, which is used; "assumed": sd 1, because the abilities of a group are undecided
    """

    sd: float
    spread: float
    se: float
    dispersion: float
    source: Source


@dataclass(frozen=True)
class OwnAbilities:
    """Abilities as the votes alone say them, without prior and cap, arrays of shape (n_annotators,).

    The prior leaves of an ability's distance from 1 about the share ρ = I/(I + 1/sd²), I the information of the
    annotator's votes.

    Attributes
    ----------
    ability : without a prior, extrapolated from a wide one
    slope : 1/ρ, its derivative by θ
    weight : ρ of an annotator of ability 1 with the same votes
    """

    ability: Floats
    slope: Floats
    weight: Floats


@dataclass(frozen=True)
class FitResult:
    """A converged maximum over one set of compact cells, in the solver's gauge, and what is published of it.

    Attributes
    ----------
    R : natural units, mean 0 in each component, shape (n_models,)
    theta : shape (n_annotators,); all 1 for m-ELO
    at_cap : abilities that the cap holds
    log_likelihood : of the votes alone
    iterations : of the solver
    undecided : abilities that the votes do not determine, held at 1 (`app.rating.fit.strategy`)
    prior_sd : of the prior in force; None for maximum likelihood and for m-ELO
    prior : the estimated prior; None where prior_sd was given
    weighted : the votes with their weights; None where all weigh 1
    corrected : R and theta less their first-order bias; None where they are published as they are
    own : abilities as the votes alone say them; None for `theta`
    """

    R: Floats
    theta: Floats
    at_cap: Mask
    log_likelihood: float
    iterations: int
    undecided: Mask
    prior_sd: float | None = None
    prior: PriorSpread | None = None
    weighted: Weighted | None = None
    corrected: tuple[Floats, Floats] | None = None
    own: OwnAbilities | None = None

    @classmethod
    def nothing(cls) -> Self:
        """Return the fit of no votes."""
        none, nobody = np.zeros(0), np.zeros(0, dtype=bool)
        return cls(none, none, nobody, 0.0, 0, nobody)

    def counted(self, cells: Cells) -> Cells:
        """Return the votes of the fit as it counted them."""
        return cells if self.weighted is None else self.weighted.cells

    def weights(self, cells: Cells) -> Floats:
        """Return the weight of a vote of each cell of the fit's votes, shape (n_cells,)."""
        weights: Floats = self.counted(cells).n / cells.n
        return weights

    @property
    def held(self) -> Mask:
        """Abilities that are fixed by the cap or undecided."""
        held: Mask = self.at_cap | self.undecided
        return held

    @property
    def scores(self) -> Floats:
        """R as published, shape (n_models,)."""
        return self.R if self.corrected is None else self.corrected[0]

    @property
    def abilities(self) -> Floats:
        """Theta as published, shape (n_annotators,)."""
        return self.theta if self.corrected is None else self.corrected[1]
