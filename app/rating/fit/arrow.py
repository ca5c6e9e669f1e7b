"""The models' block of a Newton system."""

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dpotrf, dpotrs

from app.rating.arrays import Floats, Indices


class Block:
    """The models' block, factorised by Cholesky.

    Parameters
    ----------
    regular : reduced Hessian S, which is singular along the shifts, plus a multiple of `shift_projector`
    """

    def __init__(self, regular: Floats) -> None:
        """Raise LinAlgError where the reduced Hessian is not positive definite across the shifts."""
        factor, failed = dpotrf(regular, lower=1) if len(regular) else (regular, 0)
        self._factor: Floats = factor
        if failed:
            raise LinAlgError("the reduced Hessian is not positive definite")

    def solve(self, right: Floats) -> Floats:
        """Return S⁺ times vectors that sum to 0 in every component, shape (n_models,) or (n_models, columns)."""
        solution: Floats = dpotrs(self._factor, right, lower=1)[0] if len(right) else right
        return solution


def shift_projector(component: Indices) -> Floats:
    """Return the orthogonal projector on the shifts that leave the likelihood unchanged: Σ_c 1_c 1_cᵀ / |c|.

    Features, with component −1, do not shift.
    """
    same = (component[:, None] == component[None, :]) & (component >= 0)
    projector: Floats = same / np.maximum(same.sum(axis=1), 1)
    return projector


def typical_information(A: Floats) -> float:
    """Return the mean of the diagonal, 0 where no model has a score."""
    return float(np.trace(A)) / max(len(A), 1)
