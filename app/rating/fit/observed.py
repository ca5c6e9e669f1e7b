from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, eigh

from app.rating.arrays import Floats, Indices, Mask
from app.rating.errors import NotConvergedError, SaddlePointError
from app.rating.fit.arrow import Arrow, Block, Problem, shift_projector
from app.rating.fit.likelihood import Curvature, Likelihood
from app.rating.fit.result import FitResult
from app.rating.fit.scale import find_scale
from app.rating.votes.cells import Cells


@dataclass(frozen=True)
class Observed:
    """The observed information at a fit, with the abilities eliminated, factorised.

    Attributes
    ----------
    block : the models' block; abilities that the fit holds stay held
    freedom : degrees of freedom of the scores: n_models less one for every component
    """

    likelihood: Likelihood
    point: Curvature
    block: Block
    freedom: int

    @property
    def arrow(self) -> Arrow:
        """The elimination of the abilities."""
        return self.block.arrow

    def solve(self, vector: Floats) -> Floats:
        """Return S⁺ times a vector that sums to 0 in every component."""
        return self.block.solve(vector)

    def ability_inverse(self) -> Floats:
        """Return the diagonal of Q: by how much a unit of its gradient moves θ_k, shape (n_annotators,)."""
        arrow = self.arrow
        if arrow.scale is None or len(arrow.size) == 0:
            return arrow.inverse_D
        size = np.where(arrow.size > 0, arrow.size, np.inf)[arrow.scale.annotators]
        return np.maximum(arrow.inverse_D - arrow.v_over_D**2 / size, 0.0)


def observe(
    cells: Cells, fit: FitResult, component: Indices, *, prior_sd: float | None, abilities: bool = True
) -> Observed:
    """Expand the objective at a fit, on the constraint that the typical ability is 1.

    Parameters
    ----------
    cells, component, prior_sd : of the fit; the Hessian that the solver left is used again
    abilities : False where abilities are known (m-ELO, slices)

    Raises
    ------
    NotConvergedError
        The observed information is not positive definite: the fit is at a saddle point (`SaddlePointError`), or an
        ability has no curvature.
    """
    if fit.end is not None and fit.end[0].likelihood.cells is cells:
        problem, point = fit.end
    else:
        likelihood = Likelihood(cells, prior_sd if abilities else None)
        point = likelihood.expand(fit.R, fit.theta)
        problem = Problem(likelihood, component, find_scale(cells) if abilities else None)
    held = fit.held if abilities else np.ones(cells.n_annotators, dtype=bool)
    try:
        # fit.theta may be in any gauge: the constraint is relative to the typical θ
        block = Block(problem, point, fit.theta, held, exact=True)
    except LinAlgError:
        raise _saddle(problem, point, fit, held) from None
    return Observed(problem.likelihood, point, block, cells.n_models - len(np.unique(component)))


def _saddle(problem: Problem, point: Curvature, fit: FitResult, held: Mask) -> NotConvergedError:
    """Return the error with the direction in which the likelihood curves up the most."""
    try:
        S = Arrow(problem, point, fit.theta, held, exact=True).S
    except LinAlgError as error:
        return NotConvergedError(f"the fit is no maximum: {error}", fit.R, fit.theta)
    # a large multiple of the projector moves the shifts, which change nothing, away from the lowest eigenvalue
    _, vectors = eigh(S + np.abs(S).sum() * shift_projector(problem.component), subset_by_index=[0, 0])
    lowest = vectors[:, 0]
    return SaddlePointError(fit.R, fit.theta, lowest / lowest[np.argmax(np.abs(lowest))])
