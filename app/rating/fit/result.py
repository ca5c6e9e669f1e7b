"""The one result of the solver."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.rating.arrays import Floats, Mask
from app.rating.fit.arrow import Problem
from app.rating.fit.likelihood import Curvature
from app.rating.votes.cells import Cells

if TYPE_CHECKING:  # both modules take a result
    from app.rating.fit.observed import Observed
    from app.rating.fit.prior_spread import PriorSpread
    from app.rating.fit.weights import Weighted


@dataclass(frozen=True)
class Rival:
    """Another maximum of the objective, nearly as high as the one of a fit.

    Attributes
    ----------
    behind : how much lower it is, natural log
    R : its scores, shape (n_models,)
    """

    behind: float
    R: Floats


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
    undecided : abilities that the votes do not determine, held at 1 (`app.rating.fit.solution`)
    end : the problem and its observed Hessian at the maximum; None where groups were fitted apart
    prior_sd : of the prior in force; None for maximum likelihood and for m-ELO
    prior : the estimated prior; None where prior_sd was given
    observed : the information at the maximum; None where it was not needed
    weighted : the votes with their weights; None where all weigh 1
    rivals : other maxima nearly as high, where they were looked for
    corrected : R and theta less their first-order bias; None where they are published as they are
    """

    R: Floats
    theta: Floats
    at_cap: Mask
    log_likelihood: float
    iterations: int
    undecided: Mask
    end: tuple[Problem, Curvature] | None = None
    prior_sd: float | None = None
    prior: "PriorSpread | None" = None
    observed: "Observed | None" = None
    weighted: "Weighted | None" = None
    corrected: tuple[Floats, Floats] | None = None
    rivals: tuple[Rival, ...] = ()

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
