"""The spread of the abilities' prior, estimated from the votes (empirical Bayes)."""

import math
from collections.abc import Callable

import numpy as np
from scipy.special import expit

from app.rating.arrays import Floats
from app.rating.fit.abilities import profile_abilities
from app.rating.fit.kernels import squared_residuals
from app.rating.fit.result import PriorSpread, Source
from app.rating.fit.rows import CellRows
from app.rating.votes.cells import Cells

ASSUMED = 1.0
LEAST, MOST = 0.1, 3.0
LEAST_DISPERSION = 0.05
ASKED = 1_000  # annotators that the spread is estimated from at most: they know it to 4 %
GRID = 12
DERIVATIVE_STEP = 1e-3
NEAR = 1e-6
TOLERANCE = 1e-8  # of log sd, and of its slope

DEFAULT = PriorSpread(ASSUMED, ASSUMED, math.nan, 1.0, "assumed")


def estimate_prior(cells: Cells, R: Floats, theta: Floats) -> PriorSpread:
    """Estimate the prior's spread at scores that do not depend on it, m-ELO's, from at most 1,000 annotators.

    Parameters
    ----------
    cells : sorted by annotator
    R, theta : natural units of the typical ability, shapes (n_models,) and (n_annotators,)

    Notes
    -----
    At the scores of a fit under the sd that follows from them the spread would be 1 to 4 % smaller, and would take five
    fits.
    """
    few = cells.where(cells.annotator % math.ceil(cells.n_annotators / ASKED) == 0)
    return estimate_spread(few, R, dispersion(few, R, theta))


def dispersion(cells: Cells, R: Floats, theta: Floats) -> float:
    """Pearson's Σ (W − p)² / Σ p(1 − p) over votes, times votes / degrees of freedom; 1 for votes without ties.

    A tie counts as half a win for each, which varies less than a win or a loss. Without this factor the noise in
    abilities would be overestimated, and their spread underestimated.
    """
    x = theta[cells.annotator] * (R[cells.model_a] - R[cells.model_b])
    p, squared = expit(x), float(np.sum(squared_residuals(cells, x)))
    expected, votes = float(np.sum(cells.n * p * (1.0 - p))), cells.n_votes
    annotators = np.count_nonzero(np.bincount(cells.annotator))
    free = max(votes - annotators - cells.n_models, 0.5 * votes)
    return max(squared / expected * votes / free, LEAST_DISPERSION)


def estimate_spread(cells: Cells, R: Floats, phi: float = 1.0) -> PriorSpread:
    """Maximise the marginal likelihood of the abilities' spread at given scores, within 0.1 to 3.

    Parameters
    ----------
    cells : sorted by annotator
    R : natural units, typical ability 1, shape (n_models,)
    phi : dispersion of the votes

    Returns
    -------
    PriorSpread
        Its standard error comes from the curvature in log spread.
    """
    marginal = _Marginal(cells, R, phi)
    low, high = math.log(LEAST), math.log(MOST)
    grid = np.linspace(low, high, GRID)
    value, slope = (np.array(x) for x in zip(*(marginal.at(point) for point in grid), strict=True))
    peaks = np.flatnonzero((slope[:-1] > 0) & (slope[1:] <= 0))
    left = int(peaks[np.argmax(value[peaks])]) if len(peaks) else GRID - 1
    if slope[0] <= 0 and value[0] >= value[left]:
        return marginal.result(low, "at-least")
    if left == GRID - 1:
        return marginal.result(high, "at-most")
    return marginal.solve(grid[left], grid[left + 1])


def find_zero(slope: Callable[[float], float], low: float, high: float) -> float:
    """Return a zero between two points where the slope is positive, then not, by regula falsi (Illinois).

    SciPy's root finders are not used: importing them takes longer than small fits.
    """
    of_low, of_high, side = slope(low), slope(high), 0
    while high - low > TOLERANCE:
        at = (low * of_high - high * of_low) / (of_high - of_low)
        of_at = slope(at)
        if abs(of_at) <= TOLERANCE * abs(of_low - of_high):
            return at
        if of_at > 0.0:
            low, of_low, of_high, side = at, of_at, of_high / 2.0 if side > 0 else of_high, 1
        else:
            high, of_high, of_low, side = at, of_at, of_low / 2.0 if side < 0 else of_low, -1
    return (low + high) / 2.0


class _Marginal:
    """Laplace's approximation of Σ_k log ∫ exp(ℓ_k(θ | R)/φ) N(θ; 1, sd²) dθ, as a function of log sd.

    Given R the Hessian is diagonal in θ, so its determinant is a product over annotators.
    """

    def __init__(self, cells: Cells, R: Floats, phi: float) -> None:
        self.cells, self.R, self.phi, self.rows = cells, R, phi, CellRows(cells)
        self.theta = np.ones(cells.n_annotators)

    def slope(self, log_sd: float) -> float:
        """Return the derivative by log sd."""
        return self.at(log_sd)[1]

    def solve(self, low: float, high: float) -> PriorSpread:
        """Find the zero of the slope between two points where it has different signs."""
        at = find_zero(self.slope, low, high)
        curvature = (self.slope(at - DERIVATIVE_STEP) - self.slope(at + DERIVATIVE_STEP)) / (2.0 * DERIVATIVE_STEP)
        return self.result(at, "estimated", curvature)

    def result(self, log_sd: float, source: Source, curvature: float = 0.0) -> PriorSpread:
        """Return the prior, with a standard error where the curvature is known."""
        spread = math.exp(log_sd)
        se = spread / math.sqrt(curvature) if curvature > 0 else math.nan
        return PriorSpread(spread / math.sqrt(self.phi), spread, se, self.phi, source)

    def at(self, log_sd: float) -> tuple[float, float]:
        """Return the value and its slope at log sd.

        The value is Σ_k ℓ_k(θ̂_k)/φ − (θ̂_k − 1)²/(2 sd²) − ½ log(1 + sd² I_k/φ); θ̂_k maximises the terms before the log.
        """
        precision = math.exp(-2.0 * log_sd)
        own = profile_abilities(
            self.rows, self.R, self.theta, precision=precision, weight=1.0 / self.phi, near=NEAR, valued=True
        )
        self.theta = own.theta
        excess = own.theta - 1.0
        shrinkage = precision / (own.information + precision)  # 1 / (1 + sd² I/φ)
        value = own.value + 0.5 * np.log(shrinkage)
        slope = precision * excess**2 - (1.0 - shrinkage) - own.third * excess * shrinkage**2 / precision
        return float(value.sum()), float(slope.sum())
