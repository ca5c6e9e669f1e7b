from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, eigh

from app.rating.data.arrays import Floats, Indices, Mask
from app.rating.data.votes import Cells
from app.rating.errors import NotConvergedError, SaddlePointError
from app.rating.solver.arrow import Arrow, Block, Elimination, Problem, factorise, shift_projector
from app.rating.solver.fit import Fit
from app.rating.solver.likelihood import Curvature, Likelihood
from app.rating.solver.scale import find_scale


@dataclass(frozen=True)
class Observed:
    """The observed information at a fit, abilities eliminated and factorised.

    Attributes
    ----------
    block : of the models, abilities eliminated; abilities that the fit holds, held
    freedom : scores that are free to move, n_models less one for every component
    fit : what it was observed at
    """

    likelihood: Likelihood
    point: Curvature
    block: Block
    freedom: int
    fit: Fit

    @property
    def arrow(self) -> Elimination:
        """The eliminated abilities."""
        return self.block.arrow

    def solve(self, vector: Floats) -> Floats:
        """S⁺ times a vector that sums to 0 in every component.

        Raises
        ------
        NotConvergedError
            More models than a square matrix should have, and the fit stands at a saddle point.
        """
        try:
            return self.block.solve(vector)
        except LinAlgError as error:
            raise NotConvergedError(f"no bias at the fit: {error}", self.fit.R, self.fit.theta) from None

    def ability_inverse(self) -> Floats:
        """Diagonal of Q, by how much θ_k answers its own gradient on the constraint, shape (n_annotators,)."""
        arrow = self.arrow
        if arrow.scale is None or len(arrow.size) == 0:
            return arrow.inverse_D
        size = np.where(arrow.size > 0, arrow.size, np.inf)[arrow.scale.annotators]
        return np.maximum(arrow.inverse_D - arrow.v_over_D**2 / size, 0.0)


def observe(cells: Cells, fit: Fit, component: Indices, *, prior_sd: float | None, abilities: bool = True) -> Observed:
    """Expand the objective at a fit, on the constraint that the typical ability is 1.

    Parameters
    ----------
    cells, component, prior_sd : of the fit; what the solver left of them at its end is used again
    abilities : False where they are known: 1 for m-ELO, the whole's for a slice

    Raises
    ------
    NotConvergedError
        The observed information is not positive definite: the fit stands at a saddle point (`SaddlePointError`), or an
        ability has no curvature.
    """
    if fit.end is not None and fit.end[0].likelihood.cells is cells:
        problem, point = fit.end
    else:
        likelihood = Likelihood(cells, prior_sd if abilities else None)
        point = likelihood.expand(fit.R, fit.theta, exact=True)
        problem = Problem(likelihood, component, find_scale(cells) if abilities else None)
    held = fit.held if abilities else np.ones(cells.n_annotators, dtype=bool)
    try:
        # fit.theta may be in any gauge: the constraint is on θ relative to its typical value
        block = factorise(problem, point, fit.theta, held, exact=True)
    except LinAlgError:
        raise _saddle(problem, point, fit, held) from None
    return Observed(problem.likelihood, point, block, cells.n_models - len(np.unique(component)), fit)


def _saddle(problem: Problem, point: Curvature, fit: Fit, held: Mask) -> NotConvergedError:
    """Name the direction in which the likelihood curves up the most."""
    try:
        S = Arrow(problem, point, fit.theta, held, exact=True).S
    except LinAlgError as error:
        return NotConvergedError(f"the fit is no maximum: {error}", fit.R, fit.theta)
    # shifts, which change nothing, are taken out of the way
    _, vectors = eigh(S + np.abs(S).sum() * shift_projector(problem.component), subset_by_index=[0, 0])
    lowest = vectors[:, 0]
    return SaddlePointError(fit.R, fit.theta, lowest / lowest[np.argmax(np.abs(lowest))])
